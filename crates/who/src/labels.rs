//! Makes the names of sites different, by the identities of their functions.

use std::collections::HashMap;
use std::sync::Arc;

use allocanary_names::{FunctionId, NamedFrame};

/// Additions that distinguish sites of one name, the shortest first.
const WAYS: [fn(&str, &NamedFrame) -> String; 9] = [
    // The types of a generic function, or the number of a closure.
    |name, frame| frame.identity.as_ref().filter(|of| !of.path.is_empty()).map_or(name.into(), |of| of.path.clone()),
    |name, frame| format!("{name} ({})", frame.module),
    |name, frame| format!("{name} ({})", last(&of(frame).file, 1)),
    |name, frame| format!("{name} ({})", last(&of(frame).file, 2)),
    |name, frame| format!("{name} ({})", last(&of(frame).file, 3)),
    |name, frame| format!("{name} ({}:{})", last(&of(frame).file, 1), of(frame).line),
    |name, frame| format!("{name} ({}:{}:{})", last(&of(frame).file, 1), of(frame).line, of(frame).column),
    |name, frame| format!("{name} ({}:{})", of(frame).file, of(frame).line),
    |name, frame| format!("{name} ({}+{:#x})", frame.module, of(frame).address),
];

/// Makes names different. If no addition distinguishes two sites, both keep the same name; their modules or places still
/// differ.
pub fn tell_apart(sites: &mut [(String, NamedFrame)]) {
    let mut of_name: HashMap<String, Vec<usize>> = HashMap::new();
    for (at, (name, _)) in sites.iter().enumerate() {
        of_name.entry(name.clone()).or_default().push(at);
    }
    for (name, alike) in of_name.into_iter().filter(|(_, alike)| alike.len() > 1) {
        // If no single addition distinguishes all sites, all additions are used together.
        let whole = |frame: &NamedFrame| {
            let FunctionId { path, file, line, column, address } = of(frame);
            format!("{name} ({path}, {}, {file}:{line}:{column}, {address:#x})", frame.module)
        };
        let named = |way: &dyn Fn(&NamedFrame) -> String| alike.iter().map(|at| way(&sites[*at].1)).collect::<Vec<_>>();
        let mut ways = WAYS.iter().map(|way| named(&|frame| way(&name, frame)));
        let names = ways.find(|names| are_different(names)).unwrap_or_else(|| named(&whole));
        for (at, name) in alike.iter().zip(names) {
            sites[*at].0 = name;
        }
    }
}

/// The data that all frames of one function have in common. If a function's place in the source is known, it is used instead of the name,
/// because a function may have two names.
pub(crate) type FunctionKey = (String, Option<Arc<FunctionId>>, String);

/// The key of a frame's function, which has this name.
pub(crate) fn function_key(name: &str, frame: &NamedFrame) -> FunctionKey {
    let name = if frame.identity.is_some() { String::new() } else { name.into() };
    (name, frame.identity.clone(), frame.module.clone())
}

/// The names of functions for other tools. These tools treat two functions with the same name as one.
#[derive(Default)]
pub(crate) struct FunctionNames(HashMap<FunctionKey, String>);

impl FunctionNames {
    /// The names of all functions of these frames.
    pub(crate) fn of<'a>(frames: impl Iterator<Item = &'a NamedFrame>) -> FunctionNames {
        let mut known: HashMap<FunctionKey, usize> = HashMap::new();
        let mut named: Vec<(String, NamedFrame)> = Vec::new();
        for frame in frames {
            let at = *known.entry(function_key(&frame.function, frame)).or_insert(named.len());
            match named.get_mut(at) {
                // A function's name may have its parameters in one place, and lack them where it is inlined.
                Some((name, _)) if (frame.function.len(), &frame.function) > (name.len(), name) => {
                    name.clone_from(&frame.function);
                }
                Some(_) => {}
                None => named.push((frame.function.clone(), frame.clone())),
            }
        }
        tell_apart(&mut named);
        FunctionNames(known.into_iter().map(|(key, at)| (key, named[at].0.clone())).collect())
    }

    /// The name of a frame's function.
    pub(crate) fn name<'a>(&'a self, frame: &'a NamedFrame) -> &'a str {
        self.0.get(&function_key(&frame.function, frame)).unwrap_or(&frame.function)
    }
}

fn are_different(names: &[String]) -> bool {
    let mut sorted: Vec<&String> = names.iter().collect();
    sorted.sort();
    sorted.windows(2).all(|pair| pair[0] != pair[1])
}

fn of(frame: &NamedFrame) -> FunctionId {
    frame.identity.as_ref().map(|identity| (**identity).clone()).unwrap_or_default()
}

/// The last parts of a path.
fn last(path: &str, parts: usize) -> &str {
    let start = path.rmatch_indices('/').nth(parts - 1).map_or(0, |(at, _)| at + 1);
    &path[start..]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn site(name: &str, module: &str, path: &str, file: &str, line: u32) -> (String, NamedFrame) {
        let identity = FunctionId { path: path.into(), file: file.into(), line, column: 7, address: 0 };
        (name.into(), NamedFrame { module: module.into(), identity: Some(identity.into()), ..NamedFrame::default() })
    }

    fn told(mut sites: Vec<(String, NamedFrame)>) -> Vec<String> {
        tell_apart(&mut sites);
        sites.into_iter().map(|(name, _)| name).collect()
    }

    #[test]
    fn names_are_as_short_as_they_can_be() {
        assert_eq!(told(vec![site("a", "x", "a", "/s/a.c", 1), site("b", "x", "b", "/s/a.c", 2)]), ["a", "b"]);
        let files = vec![site("get", "x", "get", "/s/a.c", 1), site("get", "x", "get", "/s/b.c", 1)];
        assert_eq!(told(files), ["get (a.c)", "get (b.c)"]);
        let lines = vec![site("f", "x", "f", "/s/a.cc", 1), site("f", "x", "f", "/s/a.cc", 2)];
        assert_eq!(told(lines), ["f (a.cc:1)", "f (a.cc:2)"]);
        let folders = vec![site("get", "x", "get", "/s/a/u.c", 1), site("get", "x", "get", "/s/b/u.c", 1)];
        assert_eq!(told(folders), ["get (a/u.c)", "get (b/u.c)"]);
        let types =
            vec![site("r::make", "x", "r::make<u8>", "r.rs", 1), site("r::make", "x", "r::make<u64>", "r.rs", 1)];
        assert_eq!(told(types), ["r::make<u8>", "r::make<u64>"]);
        let modules = vec![site("init", "a.so", "init", "", 0), site("init", "b.so", "init", "", 0)];
        assert_eq!(told(modules), ["init (a.so)", "init (b.so)"]);
    }

    /// A function may have two names: where it is inlined it lacks its parameters.
    #[test]
    fn another_tool_gets_one_name_of_each_function() {
        let frame =
            |name: &str, file: &str| NamedFrame { function: name.into(), ..site(name, "app", "make", file, 1).1 };
        let frames = [frame("make(int)", "/s/a.cc"), frame("make", "/s/a.cc"), frame("make(int)", "/s/b.cc")];
        let names = FunctionNames::of(frames.iter());
        let named: Vec<&str> = frames.iter().map(|frame| names.name(frame)).collect();
        assert_eq!(named, ["make(int) (a.cc)", "make(int) (a.cc)", "make(int) (b.cc)"]);
    }

    #[test]
    fn where_no_way_is_enough_all_are_taken() {
        let sites = vec![
            site("f", "a.so", "f", "/s/a.c", 1),
            site("f", "a.so", "f", "/s/a/a.c", 2),
            site("f", "b.so", "f", "/s/a.c", 1),
        ];
        let names = told(sites);
        assert!(are_different(&names) && names[0] == "f (f, a.so, /s/a.c:1:7, 0x0)", "{names:?}");
    }
}
