{{- define "node.name" -}}
{{- if contains "allocanary" .Release.Name }}{{ .Release.Name | trunc 53 }}{{ else }}{{ printf "%s-allocanary" .Release.Name | trunc 53 }}{{ end -}}
{{- end }}
{{- define "node.selector" -}}
app.kubernetes.io/name: allocanary-node
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}
{{- define "node.labels" -}}
{{ include "node.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version }}
{{- end }}
{{- define "node.proxy" -}}
{{- if eq .Values.kubelet.right "nodes/proxy" }}yes{{ else if and (eq .Values.kubelet.right "auto") (semverCompare "<1.33-0" .Capabilities.KubeVersion.Version) }}yes{{ end -}}
{{- end }}
{{- define "node.scheme" -}}
{{- if .Values.tls.secretName }}https{{ else }}http{{ end -}}
{{- end }}
