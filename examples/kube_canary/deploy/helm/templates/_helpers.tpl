{{/* All that belongs to a release has its name: two releases may live in one namespace. */}}
{{- define "canary.name" -}}
{{- if contains "kube-canary" .Release.Name }}{{ .Release.Name | trunc 53 }}{{ else }}{{ printf "%s-kube-canary" .Release.Name | trunc 53 }}{{ end -}}
{{- end }}
{{- define "canary.selector" -}}
app.kubernetes.io/name: kube-canary
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}
{{- define "canary.labels" -}}
{{ include "canary.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version }}
{{- end }}
{{/* A pod in the node's network must not set its sysctls, so that ICMP may not be permitted there. */}}
{{- define "canary.protocols" -}}
{{- if .Values.hostNetwork }}{{ without .Values.protocols "icmp" | default (list "udp") | join "," }}{{ else }}{{ .Values.protocols | join "," }}{{ end -}}
{{- end }}
