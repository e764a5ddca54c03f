//! Writes stacks as lines of text, one for each stack, and as a flamegraph (SVG). The figure is the one by which sites are sorted: pinned,
//! live, or allocated bytes.

use std::collections::BTreeMap;

use inferno::flamegraph::{Options, from_lines};

use crate::fold::{Folding, callers};
use crate::labels::FunctionNames;
use crate::order::SiteOrder;
use crate::sites::OfStack;
use allocanary_names::FrameNames;
use allocanary_trace::stacks::CodePlace;

/// The bytes of a stack by which an order sorts.
fn bytes(of: &OfStack, order: SiteOrder) -> u64 {
    match order {
        SiteOrder::Pinned => of.pinned,
        SiteOrder::Requested | SiteOrder::Grows => of.live.1,
        SiteOrder::Allocated => of.allocated.1,
    }
}

/// The name of an order's bytes.
pub fn what(order: SiteOrder) -> &'static str {
    match order {
        SiteOrder::Pinned => "pinned",
        SiteOrder::Requested | SiteOrder::Grows => "requested",
        SiteOrder::Allocated => "allocated",
    }
}

/// Lines such as `main;load;insert 4096`: the functions of a stack, the outermost first, and its bytes. Stacks with the same names share a
/// line. Stacks without bytes and the frames of the allocator are left out.
pub fn collapsed(of: &[OfStack], names: &mut FrameNames<'_>, folding: &Folding, order: SiteOrder) -> String {
    let mut lines: BTreeMap<String, u64> = BTreeMap::new();
    let (all, functions) = of_stacks(of, names, folding);
    for (one, codes) in of.iter().zip(all).filter(|(one, _)| bytes(one, order) > 0) {
        let mut frames: Vec<String> = Vec::new();
        for code in codes {
            frames.extend(names.frames(code).iter().map(|frame| plain(functions.name(frame))));
        }
        frames.reverse();
        let line = if frames.is_empty() { "(no stack)".into() } else { frames.join(";") };
        *lines.entry(line).or_default() += bytes(one, order);
    }
    lines.iter().map(|(line, bytes)| format!("{line} {bytes}\n")).collect()
}

/// The return addresses of each stack from the caller of the allocator on, and the names of all functions in them.
pub(crate) fn of_stacks(
    of: &[OfStack],
    names: &mut FrameNames<'_>,
    folding: &Folding,
) -> (Vec<Vec<CodePlace>>, FunctionNames) {
    let all: Vec<Vec<CodePlace>> = of.iter().map(|one| callers(names, one.stack, folding)).collect();
    for code in all.iter().flatten() {
        names.frames(*code);
    }
    let functions = FunctionNames::of(names.seen());
    (all, functions)
}

/// A name without the characters that end a frame or a line.
fn plain(name: &str) -> String {
    allocanary_text::outside::in_one_line(&name.replace(';', ":"))
}

/// A picture of the lines of [`collapsed`]. `of` says whose bytes they are, and when. It is on a separate line, so that a phone shows
/// all of it.
pub fn flamegraph(of: &str, lines: &str, order: SiteOrder) -> Result<Vec<u8>, String> {
    let mut options = Options::default();
    options.subtitle = Some(of.into());
    drawn(options, lines, order)
}

/// As [`flamegraph`], for a page that itself says whose bytes they are. Frames with less than 0.1 % of all bytes are left out, because
/// pages are sent by mail.
pub fn flamegraph_of_page(lines: &str, order: SiteOrder) -> Result<Vec<u8>, String> {
    let mut options = Options::default();
    options.min_width = 0.1;
    drawn(options, lines, order)
}

fn drawn(mut options: Options<'_>, lines: &str, order: SiteOrder) -> Result<Vec<u8>, String> {
    options.title = format!("Bytes {}", what(order));
    options.count_name = format!("bytes {}", what(order));
    options.deterministic = true;
    let mut svg = Vec::new();
    from_lines(&mut options, lines.lines(), &mut svg).map_err(|error| error.to_string())?;
    // The search button is nearly invisible until the pointer is on it, which does not work with a finger.
    let svg = String::from_utf8(svg).map_err(|error| error.to_string())?;
    Ok(svg.replace("opacity:0.1;", "opacity:0.7;").into_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::invented::stacks;

    #[test]
    fn lines_begin_with_the_outermost_frame() {
        let (stacks, ids) = stacks(&[&[0x10, 0x20], &[0x10, 0x30]]);
        let of = |stack, pinned| OfStack { stack, pinned, ..OfStack::default() };
        let all = [of(ids[0], 5), of(ids[1], 7), of(ids[0], 1), of(0, 2), of(ids[1], 0)];
        let lines = collapsed(&all, &mut FrameNames::of(&stacks), &Folding::default(), SiteOrder::Pinned);
        assert_eq!(lines, "(no stack) 2\n0x10;0x20 6\n0x10;0x30 7\n");
        let svg = String::from_utf8(flamegraph("redis <idle>", &lines, SiteOrder::Pinned).unwrap()).unwrap();
        assert!(svg.contains("redis &lt;idle&gt;") && svg.contains("0x30 (7 bytes pinned"), "{svg}");
        assert!(svg.contains("#search { text-anchor:end; opacity:0.7;"), "{svg}");
        assert_eq!(plain("a;b\nc"), "a:b c");
        let live = |stack, live| OfStack { stack, live: (1, live), allocated: (9, 9 * live), ..OfStack::default() };
        let all = [live(ids[0], 5), of(ids[1], 7)];
        let lines = |order| collapsed(&all, &mut FrameNames::of(&stacks), &Folding::default(), order);
        assert_eq!(
            (lines(SiteOrder::Requested), lines(SiteOrder::Allocated)),
            ("0x10;0x20 5\n".into(), "0x10;0x20 45\n".into())
        );
        let svg = String::from_utf8(flamegraph("x", "a 5", SiteOrder::Requested).unwrap()).unwrap();
        assert!(svg.contains("Bytes requested"), "{svg}");
    }

    #[test]
    fn a_page_has_the_frames_that_can_be_seen() {
        let svg =
            String::from_utf8(flamegraph_of_page("main;a 99950\nmain;b 50\n", SiteOrder::Pinned).unwrap()).unwrap();
        assert!(svg.contains("<title>a (99,950 bytes") && !svg.contains("<title>b "), "{svg}");
        let svg = String::from_utf8(flamegraph("x", "main;a 99950\nmain;b 50\n", SiteOrder::Pinned).unwrap()).unwrap();
        assert!(svg.contains("<title>b (50 bytes"), "{svg}");
    }

    #[test]
    fn a_flamegraph_of_nothing_is_an_error_in_words() {
        assert!(flamegraph("x", "", SiteOrder::Requested).is_err());
    }
}
