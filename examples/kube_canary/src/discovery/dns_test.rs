//! DNS discovery with a real dnsmasq. Peers come and change. They stay when the server has no addresses, too many, or
//! has ended.

use std::io::Write;
use std::net::UdpSocket;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};

use super::*;
use crate::histogram::Bounds;
use crate::mesh::{Mesh, Shared};

struct Server {
    child: Child,
    hosts: tempfile::NamedTempFile,
    address: SocketAddr,
}

impl Server {
    /// `None` if dnsmasq is not installed; the test then prints that it is skipped.
    fn start(hosts: &[String]) -> Option<Server> {
        let mut file = tempfile::NamedTempFile::new().unwrap();
        hosts.iter().for_each(|host| writeln!(file, "{host} canaries.test").unwrap());
        // dnsmasq drops its rights before it reads the file.
        let readable = std::os::unix::fs::PermissionsExt::from_mode(0o644);
        std::fs::set_permissions(file.path(), readable).unwrap();
        // Another process may take the free port before dnsmasq does; then dnsmasq ends.
        for _ in 0..20 {
            let address = ([127, 0, 0, 1], allocanary_testing::ports::free_port()).into();
            match Server::spawn(address, &file) {
                Ok(Some(child)) => return Some(Server { child, hosts: file, address }),
                Ok(None) => {}
                Err(error) => {
                    allocanary_testing::skipped::skipped(format_args!("dnsmasq: {error}"));
                    return None;
                }
            }
        }
        panic!("dnsmasq ended at each of 20 ports");
    }

    /// A server that listens; `None` if it ended before.
    fn spawn(address: SocketAddr, hosts: &tempfile::NamedTempFile) -> std::io::Result<Option<Child>> {
        let (hosts, port) = (format!("--addn-hosts={}", hosts.path().display()), format!("--port={}", address.port()));
        // Not `--no-daemon`: with this flag dnsmasq serves one TCP connection at a time, as long as the client keeps it open.
        // Without it, a child in its process group serves each connection.
        let mut child = Command::new("dnsmasq")
            .process_group(0)
            .args([
                "--keep-in-foreground",
                "--pid-file=",
                "--no-resolv",
                "--no-hosts",
                "--bind-interfaces",
                "--listen-address=127.0.0.1",
            ])
            .args(["--local=/test/", "--local-ttl=1", "--conf-file=/dev/null", &hosts, &port])
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()?;
        // If another process listens at the port, dnsmasq ends a moment after that process has answered.
        let mut answered = false;
        loop {
            std::thread::sleep(Duration::from_millis(50));
            if child.try_wait()?.is_some() {
                return Ok(None);
            }
            if answered {
                return Ok(Some(child));
            }
            answered = std::net::TcpStream::connect(address).is_ok();
        }
    }

    fn change(&mut self, hosts: &[String]) {
        let text: String = hosts.iter().map(|host| format!("{host} canaries.test\n")).collect();
        std::fs::write(self.hosts.path(), text).unwrap();
        // SAFETY: a signal to a child that is not yet waited for.
        unsafe { libc::kill(self.child.id() as i32, libc::SIGHUP) };
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // SAFETY: a signal to the group of a child that was started with one of its own.
        unsafe { libc::kill(-(self.child.id() as i32), libc::SIGKILL) };
        let _ = self.child.wait();
    }
}

struct Setting {
    resolver: Resolver,
    known: [Family; 2],
    mesh: Shared,
}

impl Setting {
    fn new(server: &Server) -> Self {
        Setting {
            resolver: Resolver::of_server(server.address).unwrap(),
            known: Default::default(),
            mesh: Shared::new(Mesh::new(Bounds::default(), 0, usize::MAX, "a")),
        }
    }

    async fn refresh(&mut self, probed: bool) -> Duration {
        let own = Own { addresses: Vec::new(), probed };
        refresh(&self.resolver, "canaries.test.", &own, &mut self.known, &self.mesh).await
    }

    /// Waits until `wanted` peers are probed, since dnsmasq takes a moment to start and to read its file.
    async fn until(&mut self, wanted: usize) -> Duration {
        for _ in 0..1200 {
            let wait = self.refresh(true).await;
            if self.probed() == wanted {
                return wait;
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        panic!("wanted {wanted} peers, found {}: {:?}", self.probed(), self.mesh.lock().tallies.sources);
    }

    fn probed(&self) -> usize {
        self.mesh.lock().entries().filter(|(_, entry)| entry.probed()).count()
    }
}

fn run(test: impl Future<Output = ()>) {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(test);
}

fn addresses(count: usize) -> Vec<String> {
    (0..count).map(|number| format!("10.1.{}.{}", number / 250, number % 250 + 1)).collect()
}

#[test]
fn the_times_of_name_servers_are_there_at_0_before_the_first() {
    // This server gets the query and never answers.
    let deaf = UdpSocket::bind("127.0.0.1:0").unwrap();
    let mesh = Shared::new(Mesh::new(Bounds::default(), 0, usize::MAX, "a"));
    run(async {
        let resolver = Resolver::of_server(deaf.local_addr().unwrap()).unwrap();
        let own = Own { addresses: Vec::new(), probed: true };
        let asking = watch(resolver, "canaries.test.".into(), own, mesh.clone());
        let _ = tokio::time::timeout(Duration::from_millis(100), asking).await;
    });
    let counts: Vec<_> = mesh.lock().tallies.resolutions.iter().map(|(kind, times)| (*kind, times.count())).collect();
    assert_eq!(counts, [("A", 0), ("AAAA", 0)]);
}

#[test]
fn peers_come_and_go_with_the_records() {
    let Some(mut server) = Server::start(&[addresses(2), vec!["fd00::7".into()]].concat()) else { return };
    run(async {
        let mut setting = Setting::new(&server);
        assert_eq!(setting.until(3).await, SHORTEST, "as long as the record's time to live");
        assert!(setting.mesh.lock().at("fd00::7".parse().unwrap()).is_some());
        let asked: Vec<_> = setting.mesh.lock().tallies.resolutions.values().map(|times| times.count()).collect();
        assert!(asked.len() == 2 && asked.iter().all(|times| *times > 0), "{asked:?}");
        server.change(&addresses(5));
        setting.until(5).await;
        // A thousand addresses do not fit a datagram.
        server.change(&addresses(1000));
        setting.until(1000).await;
    });
}

#[test]
fn a_server_that_has_nothing_or_is_gone_takes_no_peer_away() {
    let Some(mut server) = Server::start(&addresses(2)) else { return };
    run(async {
        let mut setting = Setting::new(&server);
        setting.until(2).await;
        server.change(&[]);
        // dnsmasq takes a moment to read its file again.
        for _ in 0..600 {
            if setting.refresh(true).await == RETRY {
                break;
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        assert_eq!((setting.refresh(true).await, setting.probed()), (RETRY, 2));
        let problem = |setting: &Setting| setting.mesh.lock().tallies.sources["dns"].problem.clone();
        assert!(problem(&setting).unwrap().contains("canaries.test. has no addresses"));
        server.child.kill().unwrap();
        server.child.wait().unwrap();
        assert_eq!((setting.refresh(true).await, setting.probed()), (RETRY, 2));
        assert!(problem(&setting).unwrap().contains("canaries.test. A"), "{:?}", problem(&setting));
    });
}

#[test]
fn an_address_at_which_no_host_can_answer_is_no_peer_and_takes_none_away() {
    let Some(mut server) = Server::start(&addresses(2)) else { return };
    run(async {
        let mut setting = Setting::new(&server);
        setting.until(2).await;
        for bad in ["224.0.0.1", "0.0.0.0", "255.255.255.255"] {
            server.change(&[addresses(3), vec![bad.into()]].concat());
            let says_so = |setting: &Setting| {
                let problem = setting.mesh.lock().tallies.sources["dns"].problem.clone();
                problem
                    .is_some_and(|problem| problem.ends_with(bad) && problem.contains("wanted the address of one host"))
            };
            // dnsmasq takes a moment to read its file again.
            for _ in 0..600 {
                setting.refresh(true).await;
                if says_so(&setting) {
                    break;
                }
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
            assert!(says_so(&setting), "{:?}", setting.mesh.lock().tallies.sources);
            assert_eq!(setting.probed(), 2, "{bad}");
        }
    });
}

#[test]
fn the_canary_itself_is_no_peer_unless_it_was_told_so() {
    let Some(server) = Server::start(&["127.0.0.1".into(), "10.9.9.9".into()]) else { return };
    run(async {
        let mut setting = Setting::new(&server);
        setting.until(2).await;
        setting.refresh(false).await;
        assert_eq!(setting.probed(), 1);
        assert!(!setting.mesh.lock().at([127, 0, 0, 1].into()).unwrap().1.probed());
    });
}
