//! Which container a process is in. In: the text of `/proc/PID/cgroup`. Out: the pod's UID, the container's ID, or the name of a group that
//! is no container. Nothing here reads a file.
//!
//! These forms are understood, each in version 1 and 2, and below any folder: a node that is itself a container has its groups in
//! another's.
//!
//! - systemd's driver: `/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-podUID.slice/cri-containerd-ID.scope`, with `crio-`,
//!   `docker-` and others in place of `cri-containerd-`; the UID has `_` in place of `-`.
//! - the driver `cgroupfs`: `/kubepods/burstable/podUID/ID`, and `crio-ID` for CRI-O.
//! - containerd with systemd's form of path under the driver `cgroupfs`:
//!   `/system.slice/containerd.service/kubepods-burstable-podUID.slice:cri-containerd:ID`.
//! - docker without pods: `/docker/ID`, `/system.slice/docker-ID.scope`.

/// The pod, container or unit that a process belongs to.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Membership {
    /// The pod's UID. For a static pod, the hash that the kubelet uses instead.
    pub pod: Option<String>,
    /// The container's ID: 64 hexadecimal digits.
    pub container: Option<String>,
    /// The name of a group that is no container: a unit of systemd, or the last folder.
    pub group: String,
    /// The path down to the container or the unit. Groups below it belong to the container, too. Two units may have the same name, but not
    /// the same path.
    pub path: String,
}

impl Membership {
    /// Parses the text. The hierarchy that says the most counts: on hybrid hosts some have only the root.
    pub fn parse(listed: &str) -> Membership {
        let paths = listed.lines().filter_map(|line| line.split_once(':')?.1.split_once(':').map(|(_, path)| path));
        let rank = |place: &Membership| (place.container.is_some(), place.pod.is_some(), !place.path.is_empty());
        // The first of equals counts.
        let more = |best: Membership, next: Membership| if rank(&next) > rank(&best) { next } else { best };
        paths.map(Membership::of_path).reduce(more).unwrap_or_default()
    }

    fn of_path(path: &str) -> Membership {
        let Owner { pod, container } = Owner::of(path);
        let path = own_path(path);
        let mut place = Membership {
            pod: pod.map(|(_, uid)| uid),
            container: container.map(|(_, id)| id),
            ..Membership::default()
        };
        if place.container.is_none() {
            place.group = folders(path).last().unwrap_or_default().to_string();
        }
        place.path = if folders(path).next().is_some() { path.to_string() } else { String::new() };
        place
    }
}

fn folders(path: &str) -> impl Iterator<Item = &str> {
    path.split('/').filter(|part| !matches!(*part, "" | ".." | "."))
}

/// The pod and the container that a path belongs to, each with the position in the path where the name of its folder ends.
#[derive(Default)]
struct Owner {
    pod: Option<(usize, String)>,
    container: Option<(usize, String)>,
}

impl Owner {
    /// The first pod counts, and the first ID after it: a container that may make groups can give them the names of another pod and its
    /// container. Above a pod, or without one, the last ID counts, since a node may itself be a container.
    fn of(path: &str) -> Owner {
        let mut owner = Owner::default();
        for (end, part) in ends(path) {
            if owner.pod.is_none()
                && let Some(pod) = pod_of(part)
            {
                owner = Owner { pod: Some((end, pod)), container: None };
            }
            if (owner.pod.is_none() || owner.container.is_none())
                && let Some(id) = id_of(part)
            {
                owner.container = Some((end, id));
            }
        }
        owner
    }
}

/// The folders of a path, each with the position where its name ends.
fn ends(path: &str) -> impl Iterator<Item = (usize, &str)> {
    path.split('/').scan(0, |at, part| {
        let end = *at + part.len();
        *at = end + 1;
        Some((end, part))
    })
}

/// The path down to the container or, without one, to the last unit. The folders below were made by processes of the container.
fn own_path(path: &str) -> &str {
    let Owner { pod, container } = Owner::of(path);
    let unit = || {
        let is_unit = |part: &str| part.ends_with(".service") || part.ends_with(".scope");
        let end = ends(path).filter(|(_, part)| is_unit(part)).last()?.0;
        pod.is_none_or(|(pod, _)| pod < end).then_some(end)
    };
    let end = container.map(|(end, _)| end).or_else(unit);
    &path[..end.unwrap_or(path.len())]
}

/// The text with each path cut at the container or the unit.
pub fn down_to_own(listed: &str) -> String {
    let line = |line: &str| match line.match_indices(':').nth(1) {
        Some((at, _)) => format!("{}{}", &line[..=at], own_path(&line[at + 1..])),
        None => line.to_string(),
    };
    listed.lines().map(line).collect::<Vec<_>>().join("\n")
}

/// The pod's UID in a folder's name. The forms are `podUID`, `kubepods-burstable-podUID.slice`, and containerd's, which goes on after a
/// colon.
fn pod_of(part: &str) -> Option<String> {
    let head = part.split(':').next().unwrap_or_default();
    let head = head.strip_suffix(".slice").unwrap_or(head);
    let uid = match head.rsplit_once("-pod") {
        // In this form the UID has `_` in place of `-`, so it contains no `-pod`.
        Some((before, uid)) if before.contains("kubepods") => uid,
        _ => head.strip_prefix("pod")?,
    };
    let uid = uid.replace('_', "-");
    let is_uid = uid.len() == 36
        && uid.bytes().enumerate().all(|(at, byte)| match at {
            8 | 13 | 18 | 23 => byte == b'-',
            _ => byte.is_ascii_hexdigit(),
        });
    let is_hash = uid.len() == 32 && uid.bytes().all(|byte| byte.is_ascii_hexdigit());
    (is_uid || is_hash).then(|| uid.to_ascii_lowercase())
}

/// The container's ID in a folder's name: the last piece after `-` or `:`, without the suffix `.scope`, if it has 64 hexadecimal digits.
/// `crio-conmon-ID` is the container's monitor, not the container.
fn id_of(part: &str) -> Option<String> {
    let part = part.strip_suffix(".scope").unwrap_or(part);
    let (before, id) = part.rfind(['-', ':']).map_or(("", part), |at| (&part[..at], &part[at + 1..]));
    let is_id = id.len() == 64 && id.bytes().all(|byte| byte.is_ascii_hexdigit());
    (is_id && !before.contains("conmon")).then(|| id.to_ascii_lowercase())
}

/// Rewrites paths that lead up and out of the reader's own name space to the host's paths, as far as they follow from the name. A name of
/// systemd contains the folders above it, and the folders of `cgroupfs` are always the same.
///
/// A pod of `cgroupfs` may be in one of three folders. `exists` says which path is there.
pub fn from_the_root(listed: &str, exists: impl Fn(&str) -> bool) -> String {
    let line = |line: &str| {
        let Some((head, path)) = line.match_indices(':').nth(1).map(|(at, _)| line.split_at(at + 1)) else {
            return line.to_string();
        };
        let inside: Vec<&str> = path.split('/').filter(|part| !matches!(*part, "" | "..")).collect();
        if !path.starts_with("/..") || inside.is_empty() {
            return line.to_string();
        }
        let found =
            above(inside[0]).into_iter().map(|above| format!("{above}/{}", inside.join("/"))).find(|path| exists(path));
        format!("{head}{}", found.unwrap_or_else(|| path.to_string()))
    };
    listed.lines().map(line).collect::<Vec<_>>().join("\n")
}

/// The folders that may be above this one.
fn above(name: &str) -> Vec<String> {
    match name.strip_suffix(".slice") {
        Some(slice) => {
            let ends = slice.match_indices('-').map(|(at, _)| at);
            vec![ends.map(|at| format!("/{}.slice", &slice[..at])).collect()]
        }
        None if name.starts_with("pod") => {
            ["/kubepods", "/kubepods/burstable", "/kubepods/besteffort"].map(String::from).to_vec()
        }
        None if matches!(name, "burstable" | "besteffort") => vec!["/kubepods".into()],
        None => vec![String::new(), "/system.slice".into()],
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const UID: &str = "3f0d5a1e-9c1b-4e5e-8f11-0123456789ab";
    const LOW: &str = "3f0d5a1e_9c1b_4e5e_8f11_0123456789ab";
    const ID: &str = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef";

    fn told(listed: &str) -> (Option<String>, Option<String>) {
        let place = Membership::parse(listed);
        (place.pod, place.container)
    }

    #[test]
    fn every_driver_and_runtime_tells_pod_and_container() {
        let both = (Some(UID.to_string()), Some(ID.to_string()));
        for path in [
            format!(
                "/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod{LOW}.slice/cri-containerd-{ID}.scope"
            ),
            format!("/kubepods.slice/kubepods-pod{LOW}.slice/crio-{ID}.scope"),
            format!("/kubepods.slice/kubepods-besteffort.slice/kubepods-besteffort-pod{LOW}.slice/docker-{ID}.scope"),
            format!("/kubepods.slice/kubepods-pod{LOW}.slice/crio-{ID}.scope/container"),
            format!("/kubepods/burstable/pod{UID}/{ID}"),
            format!("/kubepods/pod{UID}/crio-{ID}"),
            format!("/kubepods/pod{UID}/{ID}/system.slice/nginx.service"),
            format!("/system.slice/containerd.service/kubepods-burstable-pod{LOW}.slice:cri-containerd:{ID}"),
            format!("/kubelet.slice/kubelet-kubepods.slice/kubelet-kubepods-pod{LOW}.slice/cri-containerd-{ID}.scope"),
            // A node that is a container.
            format!("/docker/{}/kubelet/kubepods/besteffort/pod{UID}/{ID}", ID.replace('0', "f")),
            // From within another container.
            format!("/../../kubepods-besteffort-pod{LOW}.slice/cri-containerd-{ID}.scope"),
        ] {
            assert_eq!(told(&format!("0::{path}\n")), both, "{path}");
            assert_eq!(told(&format!("4:memory:{path}\n0::/\n")), both, "version 1, hybrid: {path}");
            assert_eq!(told(&format!("0::/\n4:cpu,cpuacct:{path}\n")), both, "hybrid, the other order: {path}");
        }
    }

    #[test]
    fn a_static_pod_has_a_hash_and_other_groups_have_their_name() {
        let hash = "0123456789abcdef0123456789abcdef";
        let static_pod = format!("0::/kubepods/burstable/pod{hash}/{ID}\n");
        assert_eq!(told(&static_pod), (Some(hash.into()), Some(ID.into())));
        assert_eq!(told(&format!("0::/docker/{ID}\n")), (None, Some(ID.into())));
        assert_eq!(told(&format!("0::/system.slice/docker-{ID}.scope\n")), (None, Some(ID.into())));
        let unit = |path: &str| Membership::parse(&format!("0::{path}\n"));
        assert_eq!(unit("/system.slice/nginx.service").group, "nginx.service");
        assert_eq!(unit("/user.slice/user-0.slice/session-3.scope").group, "session-3.scope");
        assert_eq!(unit("/user.slice/user@0.service/app.slice/dbus.service/x").group, "dbus.service");
        assert_ne!(
            unit("/a/user@0.service/dbus.service"),
            unit("/a/user@1.service/dbus.service"),
            "two units of one name"
        );
        assert_eq!(unit("/system.slice/nginx.service/worker"), unit("/system.slice/nginx.service"));
        assert_eq!(unit("/"), Membership::default());
    }

    #[test]
    fn what_looks_like_a_pod_is_none() {
        let monitor = format!("0::/kubepods.slice/kubepods-pod{LOW}.slice/crio-conmon-{ID}.scope\n");
        assert_eq!(told(&monitor), (Some(UID.into()), None));
        for path in ["/podman.service", "/machine.slice/pod-x.slice", "/kubepods.slice", "/my-podcast.slice/x"] {
            assert_eq!(told(&format!("0::{path}\n")), (None, None), "{path}");
        }
        assert_eq!(told(&format!("0::/x/pod{}/y\n", &UID[..35])), (None, None));
    }

    #[test]
    fn paths_out_of_a_name_space_are_the_hosts_again() {
        let found = |path: &str, there: &str| from_the_root(&format!("0::{path}"), |path| path == there);
        let systemd = format!(
            "/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod{LOW}.slice/cri-containerd-{ID}.scope"
        );
        let seen = format!("/../../kubepods-burstable-pod{LOW}.slice/cri-containerd-{ID}.scope");
        assert_eq!(found(&seen, &systemd), format!("0::{systemd}"));
        let cgroupfs = format!("/kubepods/besteffort/pod{UID}/{ID}");
        assert_eq!(found(&format!("/../../pod{UID}/{ID}"), &cgroupfs), format!("0::{cgroupfs}"));
        assert_eq!(found("/../../nginx.service", "/system.slice/nginx.service"), "0::/system.slice/nginx.service");
        assert_eq!(found("/../../gone", "/x"), "0::/../../gone", "what is not known stays");
        assert_eq!(found("/a/b", "/x"), "0::/a/b");
        assert_eq!(from_the_root("4:memory:/a\nx\n", |_| true), "4:memory:/a\nx");
    }

    #[test]
    fn what_a_container_makes_below_its_group_is_the_containers() {
        let own = format!("/kubepods.slice/kubepods-pod{LOW}.slice/crio-{ID}.scope");
        let place = |path: &str| Membership::parse(&format!("0::{path}\n"));
        assert_eq!(place(&own).path, own);
        assert_eq!(place(&own).group, "");
        for below in ["/init", "/system.slice/nginx.service", "/a/b.scope"] {
            assert_eq!(place(&format!("{own}{below}")), place(&own), "{below}");
            let listed = format!("4:cpu,cpuacct:{own}{below}\n0::/x.service/y\nz");
            assert_eq!(down_to_own(&listed), format!("4:cpu,cpuacct:{own}\n0::/x.service\nz"));
        }
        let node = format!("/docker/{}/kubelet/kubepods/besteffort/pod{UID}", ID.replace('0', "f"));
        assert_eq!(place(&node).path, node, "the pod's own group, on a node that is a container");
    }

    #[test]
    fn a_container_that_makes_groups_takes_no_other_pods_rows() {
        let (other, victim) = (UID.replace('3', "4"), ID.replace('0', "e"));
        let place = |path: &str| Membership::parse(&format!("0::{path}\n"));
        for own in [
            format!("/kubepods/burstable/pod{UID}/{ID}"),
            format!("/kubepods.slice/kubepods-pod{LOW}.slice/cri-containerd-{ID}.scope"),
            format!("/system.slice/containerd.service/kubepods-burstable-pod{LOW}.slice:cri-containerd:{ID}"),
            format!("/docker/{}/kubelet/kubepods/besteffort/pod{UID}/{ID}", ID.replace('0', "f")),
        ] {
            for below in
                [format!("/kubepods/burstable/pod{other}/{victim}"), format!("/{victim}"), format!("/pod{other}")]
            {
                let path = format!("{own}{below}");
                assert_eq!(place(&path), place(&own), "{path}");
                assert_eq!(down_to_own(&format!("0::{path}")), format!("0::{own}"), "it is charged to its container");
            }
        }
    }

    proptest! {
        #[test]
        fn no_text_is_a_panic(text in "[0-9a-f:/._\\-podkubeslice\n]{0,300}") {
            let _ = (Membership::parse(&text), from_the_root(&text, |_| true), down_to_own(&text));
        }
    }
}
