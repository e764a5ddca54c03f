//! A control plane: etcd and a real kube-apiserver in the bridge's namespace. In: a net. Out: an API server that checks
//! rights, and kubectl. All are removed with the test. There are no controllers and no kubelet: the test writes the
//! objects that they would write.

use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::canary::until;
use crate::net::{Net, Running, SERVER};
use allocanary_testing::skipped::skipped;

/// The API server's port.
pub const PORT: u16 = 6443;
const ADMIN: &str = "the-test-is-the-administrator";
/// People who have no rights but those that a test gives them. Their tokens are their names.
pub const PEOPLE: [&str; 3] = ["ann", "bob", "eve"];

/// A running etcd and API server.
pub struct Plane<'a> {
    net: &'a Net,
    binary: PathBuf,
    folder: tempfile::TempDir,
    _etcd: Running,
    server: Option<Running>,
}

/// The folder with the files of `build.sh`, if they were made: the one that `KUBE_APISERVER` names, or the one in
/// Cargo's target.
pub fn built() -> Option<PathBuf> {
    let default = || Path::new(env!("CARGO_TARGET_TMPDIR")).with_file_name("apiserver");
    let folder = std::env::var_os("KUBE_APISERVER").map_or_else(default, PathBuf::from);
    let files = ["kube-apiserver", "port-forwarder", "podmonitors.yaml", "servicemonitors.yaml"];
    if !files.iter().all(|file| folder.join(file).exists()) {
        skipped(format_args!(
            "needs {}/{{kube-apiserver,port-forwarder}}, which tests/namespaces/apiserver/build.sh makes",
            folder.display()
        ));
        return None;
    }
    Some(folder)
}

impl<'a> Plane<'a> {
    /// Starts both and waits until the API server is ready.
    pub fn start(net: &'a Net, built: &Path) -> Plane<'a> {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name).display().to_string();
        let people: String = PEOPLE.iter().map(|name| format!("{name},{name},{name}\n")).collect();
        std::fs::write(at("tokens.csv"), format!("{ADMIN},admin,1,\"system:masters\"\n{people}")).unwrap();
        let key = Command::new("openssl").args(["genrsa", "-out", &at("accounts.key"), "2048"]).output().unwrap();
        assert!(key.status.success(), "openssl: {}", String::from_utf8_lossy(&key.stderr));
        let etcd = net.spawn(
            "b",
            &format!(
                "etcd --data-dir={} --listen-client-urls=http://127.0.0.1:2379 --advertise-client-urls=http://127.0.0.1:2379 \
                 --listen-peer-urls=http://127.0.0.1:2380 --unsafe-no-fsync",
                at("etcd")
            ),
        );
        let mut plane = Plane { net, binary: built.join("kube-apiserver"), folder, _etcd: etcd, server: None };
        plane.restart();
        plane
    }

    /// Ends the API server as a crash does, if it runs, and starts it.
    pub fn restart(&mut self) {
        self.stop();
        let at = |name: &str| self.folder.path().join(name).display().to_string();
        let mut command = self.net.command("b", &self.binary.display().to_string());
        command
            .args(["--etcd-servers=http://127.0.0.1:2379", "--authorization-mode=RBAC"])
            .args([&format!("--bind-address={SERVER}"), &format!("--advertise-address={SERVER}")])
            .args([&format!("--secure-port={PORT}"), &format!("--cert-dir={}", at("certificates"))])
            .args([format!("--token-auth-file={}", at("tokens.csv")), "--service-cluster-ip-range=10.96.0.0/16".into()])
            .arg("--service-account-issuer=https://kubernetes.default.svc.cluster.local")
            .arg(format!("--service-account-key-file={}", at("accounts.key")))
            .arg(format!("--service-account-signing-key-file={}", at("accounts.key")));
        let log = File::options().create(true).append(true).open(at("apiserver.log")).unwrap();
        let server = command.stdout(Stdio::null()).stderr(log).spawn().unwrap();
        self.server = Some(Running(server));
        let ready = || self.kubectl(&["get", "--raw", "/readyz"], "").is_ok_and(|text| text == "ok");
        until(ready, "the API server is ready");
    }

    /// Ends the API server: its connections break.
    pub fn stop(&mut self) {
        self.server = None;
    }

    /// Deletes etcd's history. Whoever asks for a change from before gets 410 Gone.
    pub fn compact(&self) {
        let etcdctl = |line: &str| {
            let out = self.net.command("b", &format!("etcdctl {line}")).env("ETCDCTL_API", "3").output().unwrap();
            assert!(out.status.success(), "etcdctl {line}: {}", String::from_utf8_lossy(&out.stderr));
            String::from_utf8_lossy(&out.stdout).into_owned()
        };
        let status: serde_json::Value = serde_json::from_str(&etcdctl("endpoint status --write-out=json")).unwrap();
        etcdctl(&format!("compaction {}", status[0]["Status"]["header"]["revision"]));
    }

    /// The certificates that the API server made for itself. A client must trust them.
    pub fn certificates(&self) -> PathBuf {
        self.folder.path().join("certificates/apiserver.crt")
    }

    /// A kubeconfig of one of the [`PEOPLE`].
    pub fn config_of(&self, person: &str) -> PathBuf {
        let file = self.folder.path().join(format!("{person}.json"));
        let cluster = serde_json::json!({"server": format!("https://{SERVER}:{PORT}"), "certificate-authority": self.certificates()});
        let config = serde_json::json!({
            "apiVersion": "v1", "kind": "Config", "current-context": "test",
            "clusters": [{"name": "test", "cluster": cluster}],
            "users": [{"name": person, "user": {"token": person}}],
            "contexts": [{"name": "test", "context": {"cluster": "test", "user": person}}],
        });
        std::fs::write(&file, config.to_string()).unwrap();
        file
    }

    /// Runs kubectl as the administrator, with `input` on its standard input. Returns its output, or its standard error if
    /// it failed.
    pub fn kubectl(&self, arguments: &[&str], input: &str) -> Result<String, String> {
        let mut command = self.net.command("b", "kubectl");
        command
            .args([format!("--server=https://{SERVER}:{PORT}"), format!("--token={ADMIN}")])
            .arg(format!("--certificate-authority={}", self.certificates().display()))
            .args(arguments)
            .env("HOME", self.folder.path())
            .env_remove("KUBECONFIG");
        let mut child =
            command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("kubectl");
        // A command that does not read its input closes it.
        let _ = child.stdin.take().unwrap().write_all(input.as_bytes());
        let out = child.wait_with_output().unwrap();
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        if out.status.success() { Ok(text(&out.stdout)) } else { Err(text(&out.stderr)) }
    }

    /// The same as [`Plane::kubectl`], for a command that must succeed.
    pub fn must(&self, arguments: &[&str], input: &str) -> String {
        self.kubectl(arguments, input).unwrap_or_else(|said| panic!("kubectl {arguments:?}: {said}"))
    }

    /// Adds a kind of objects, and waits until it can be used.
    pub fn define(&self, file: &Path, kind: &str) {
        self.must(&["apply", "--server-side", "-f", &file.display().to_string()], "");
        until(|| self.kubectl(&["get", kind], "").is_ok(), "the API server knows the kind");
    }

    /// Writes an object. A field that the API does not know is an error.
    pub fn apply(&self, object: &serde_json::Value) {
        self.must(
            &["apply", "--server-side", "--force-conflicts", "--validate=strict", "-f", "-"],
            &object.to_string(),
        );
    }

    /// An object as the API server has it.
    pub fn object(&self, namespace: &str, kind: &str, name: &str) -> serde_json::Value {
        let text = self.must(&["get", "--namespace", namespace, kind, name, "--output=json"], "");
        serde_json::from_str(&text).unwrap()
    }

    /// Applies a folder of `deploy/` as kustomize renders it. A field that the API does not know is an error.
    pub fn deploy(&self, folder: &str, namespace: &str) {
        let path = format!("{}/deploy/{folder}", env!("CARGO_MANIFEST_DIR"));
        let rendered = self.must(&["kustomize", &path], "");
        let said = self.must(
            &["apply", "--server-side", "--force-conflicts", "--validate=strict", "--namespace", namespace, "-f", "-"],
            &rendered,
        );
        assert!(said.contains("daemonset.apps/"), "{folder}: {said}");
    }
}
