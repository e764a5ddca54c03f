//! Network namespaces. In: how many nodes. Out: one namespace for each node with an address of each family, and one more with
//! a bridge that joins them and has an address too. All are removed with the test.

use std::fs::File;
use std::io::{Read, Write};
use std::net::{IpAddr, TcpStream};
use std::os::fd::AsRawFd;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

/// The address of the bridge's namespace, which all nodes reach. Servers run there.
pub const SERVER: &str = "10.77.0.254";

static NUMBER: AtomicU32 = AtomicU32::new(0);

/// The namespaces `PREFIX0`, `PREFIX1`... and the bridge's, `PREFIXb`.
pub struct Net {
    prefix: String,
    nodes: usize,
    bridged: bool,
}

/// A child that is ended with its test. If it leads a process group, its children are ended too.
pub struct Running(pub Child);

impl Drop for Running {
    fn drop(&mut self) {
        // SAFETY: a signal to the group of a child that was not waited for yet. If there is no such group, no process gets
        // it.
        unsafe { libc::kill(-(self.0.id() as i32), libc::SIGKILL) };
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Whether a program is installed.
pub fn has(tool: &str) -> bool {
    let paths = std::env::var("PATH").unwrap_or_default() + ":/usr/sbin:/sbin";
    paths.split(':').any(|folder| std::path::Path::new(folder).join(tool).exists())
}

fn sh(line: &str) {
    let out = Command::new("sh").arg("-ec").arg(line).output().unwrap();
    assert!(out.status.success(), "{line}: {}", String::from_utf8_lossy(&out.stderr));
}

/// Removes the namespaces that a killed run left.
fn sweep() {
    let left = std::fs::read_dir("/run/netns").into_iter().flatten().flatten();
    for name in left.filter_map(|entry| entry.file_name().into_string().ok()) {
        let owner = name.strip_prefix("kc").and_then(|rest| rest.split_once('x')?.0.parse::<u32>().ok());
        if owner.is_some_and(|owner| !std::path::Path::new(&format!("/proc/{owner}")).exists()) {
            remove(&name);
        }
    }
}

fn remove(name: &str) {
    let _ = Command::new("ip").args(["netns", "del", name]).status();
    let _ = std::fs::remove_dir_all(format!("/etc/netns/{name}"));
}

impl Net {
    /// This many nodes on a bridge. With 0 there are two namespaces that are not yet joined.
    pub fn new(nodes: usize) -> Net {
        sweep();
        let prefix = format!("kc{}x{}n", std::process::id(), NUMBER.fetch_add(1, Ordering::Relaxed));
        let net = Net { prefix, nodes: nodes.max(2), bridged: nodes > 0 };
        let bridge = net.name("b");
        sh(&format!(
            "ip netns add {bridge}; ip -n {bridge} link set lo up
             ip -n {bridge} link add br0 type bridge; ip -n {bridge} link set br0 up
             ip -n {bridge} addr add {SERVER}/24 dev br0"
        ));
        for node in 0..net.nodes {
            let name = net.name(node);
            sh(&format!(
                "ip netns add {name}; ip -n {name} link set lo up
                 ip netns exec {name} sysctl -qw net.ipv4.ping_group_range='0 2147483647'"
            ));
            if nodes > 0 {
                sh(&format!(
                    "ip -n {name} link add eth0 type veth peer name port{node} netns {bridge}
                     ip -n {bridge} link set port{node} master br0 up
                     ip -n {name} addr add {}/24 dev eth0; ip -n {name} addr add {}/64 dev eth0 nodad
                     ip -n {name} link set eth0 up",
                    net.address(node),
                    net.address6(node)
                ));
            }
        }
        net
    }

    /// The name of a node's namespace.
    pub fn name(&self, node: impl std::fmt::Display) -> String {
        format!("{}{node}", self.prefix)
    }

    /// How many nodes there are.
    pub fn nodes(&self) -> usize {
        self.nodes
    }

    /// A node's address.
    pub fn address(&self, node: usize) -> IpAddr {
        IpAddr::from([10, 77, 0, node as u8 + 1])
    }

    /// Its address of the other family.
    pub fn address6(&self, node: usize) -> IpAddr {
        IpAddr::from([0xfd77, 0, 0, 0, 0, 0, 0, node as u16 + 1])
    }

    /// Both addresses if a bridge joins the nodes. The wire of a relay between two nodes has only the first.
    pub fn addresses(&self, node: usize) -> impl Iterator<Item = IpAddr> {
        [self.address(node)].into_iter().chain(self.bridged.then(|| self.address6(node)))
    }

    /// Cuts a node's link (`down`) or restores it (`up`).
    pub fn link(&self, node: usize, state: &str) {
        sh(&format!("ip -n {} link set port{node} {state}", self.name("b")));
    }

    /// Loads a table of nft rules in a node's namespace.
    pub fn nft(&self, node: impl std::fmt::Display, rules: &str) {
        let said = self.with_input(node, "nft -f -", rules);
        assert!(said.is_empty(), "nft: {said}");
    }

    /// Makes the wire to a node lose one echo request of ten, at random. [`Net::counted`] then returns the number of lost
    /// ones by IPv4.
    pub fn lose_one_of_ten(&self, node: usize) {
        self.nft(
            node,
            "table inet lossy {
                chain input {
                    type filter hook input priority 0;
                    icmp type echo-request numgen random mod 10 0 counter drop
                    icmpv6 type echo-request numgen random mod 10 0 counter drop
                }
            }",
        );
    }

    /// The number of packets that the first counter of a node's rules has seen.
    pub fn counted(&self, node: impl std::fmt::Display) -> u64 {
        let rules = self.with_input(node, "nft list ruleset", "");
        let after = rules.split("packets ").nth(1).unwrap_or_else(|| panic!("no counter in {rules}"));
        after.split(' ').next().unwrap().parse().unwrap()
    }

    /// Makes all nodes ask a name server in the bridge's namespace.
    pub fn resolve_by_server(&self) {
        for node in 0..self.nodes {
            // `ip netns exec` mounts the files of this folder over those in /etc.
            let folder = format!("/etc/netns/{}", self.name(node));
            std::fs::create_dir_all(&folder).unwrap();
            std::fs::write(format!("{folder}/resolv.conf"), format!("nameserver {SERVER}\n")).unwrap();
        }
    }

    /// Runs a command line in a namespace with this standard input, and returns its output.
    pub fn with_input(&self, node: impl std::fmt::Display, line: &str, input: &str) -> String {
        let mut command = self.command(node, line);
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        child.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
        let out = child.wait_with_output().unwrap();
        String::from_utf8_lossy(&out.stdout).into_owned() + &String::from_utf8_lossy(&out.stderr)
    }

    /// Starts a command line in a namespace.
    pub fn spawn(&self, node: impl std::fmt::Display, line: &str) -> Running {
        Running(self.command(node, line).process_group(0).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap())
    }

    /// The command for a line that runs in a namespace.
    pub fn command(&self, node: impl std::fmt::Display, line: &str) -> Command {
        let mut command = Command::new("ip");
        command.args(["netns", "exec", &self.name(node)]).args(line.split(' '));
        command
    }

    /// Runs `work` on a thread in a node's namespace.
    pub fn within<T: Send>(&self, node: impl std::fmt::Display, work: impl FnOnce() -> T + Send) -> T {
        let namespace = File::open(format!("/run/netns/{}", self.name(node))).unwrap();
        std::thread::scope(|scope| {
            let thread = scope.spawn(move || {
                // SAFETY: the descriptor is open. Only this thread changes its namespace, and it ends here.
                assert_eq!(unsafe { libc::setns(namespace.as_raw_fd(), libc::CLONE_NEWNET) }, 0);
                work()
            });
            thread.join().unwrap()
        })
    }

    /// The body of the answer to a GET from within a namespace. It is empty if the request failed, because the server
    /// may not have started yet.
    pub fn get(&self, node: impl std::fmt::Display, address: &str, path: &str) -> String {
        self.within(node, || {
            let Ok(mut stream) = TcpStream::connect(address) else { return String::new() };
            let _ = stream.set_read_timeout(Some(Duration::from_secs(60)));
            // HTTP 1.0, so that long answers do not come in chunks.
            let request = format!("GET {path} HTTP/1.0\r\nhost: {address}\r\n\r\n");
            let mut answer = Vec::new();
            let _ = stream.write_all(request.as_bytes()).and_then(|()| stream.read_to_end(&mut answer).map(drop));
            let answer = String::from_utf8_lossy(&answer);
            answer.split_once("\r\n\r\n").map(|(_, body)| body.to_string()).unwrap_or_default()
        })
    }
}

impl Drop for Net {
    fn drop(&mut self) {
        for node in (0..self.nodes).map(|node| node.to_string()).chain(["b".to_string()]) {
            remove(&self.name(node));
        }
    }
}
