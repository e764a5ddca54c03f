//! The callers of a site. In: a tree of callers. Out: text for a terminal, JSON, markup for a page.

use allocanary_text::outside::{TerminalStyle, harmless_lines};
use allocanary_text::units::Unit;
use allocanary_who::callers::{Caller, DEPTH, FunctionFigures};
use allocanary_who::{SiteOrder, SiteReport};
use maud::{Markup, html};
use serde_json::{Value, json};

use super::{answer, wrappers};
use crate::draw::{document, object};
use crate::views::heap::{bold, item};

/// The width of the three columns of figures.
const FIGURES: usize = 10;

/// The tree, from the site to its callers.
pub fn text(found: &SiteReport, tree: &Caller, order: SiteOrder, look: &TerminalStyle) -> String {
    let width = usize::from(look.width);
    let title = format!(
        "Who calls `{}`, {}: each function under the one that it calls, {}",
        tree.name,
        found.moment.words,
        order.words()
    );
    let mut out = format!("{}\n", bold(&harmless_lines(&crate::draw::wrapped(&title, width)), look));
    out.push_str(&line(["pinned", "requested", "allocated"].map(String::from), "function", width));
    branch(tree, 0, width, &mut out);
    if let Some(said) = wrappers(found) {
        out.push_str(&format!("\n{}\n", harmless_lines(&crate::draw::wrapped(&said, width))));
    }
    if !found.notes.is_empty() {
        out.push_str(&format!("\n{}\n", bold("What limits these figures", look)));
        found.notes.iter().for_each(|note| out.push_str(&item(note, look)));
    }
    out
}

/// A function and its callers. The tree is no deeper than [`DEPTH`].
fn branch(caller: &Caller, depth: usize, width: usize, out: &mut String) {
    let indent = "  ".repeat(depth.min(DEPTH));
    out.push_str(&line(figures(caller.figures), &format!("{indent}{}", caller.name), width));
    caller.callers.iter().for_each(|next| branch(next, depth + 1, width, out));
    let (count, sum) = caller.others;
    if count > 0 {
        let others = if count == 1 { "1 other".into() } else { format!("{count} others") };
        out.push_str(&line(figures(sum), &format!("{indent}  {others}"), width));
    }
    if caller.is_deeper {
        out.push_str(&format!("{:1$}{indent}  ...\n", "", 3 * FIGURES + 4));
    }
}

fn figures(of: FunctionFigures) -> [String; 3] {
    [of.pinned, of.live, of.allocated].map(|bytes| Unit::Bytes.show(bytes as f64))
}

/// The name is last, because its indent grows. The end of a long name is left out.
fn line([pinned, live, allocated]: [String; 3], name: &str, width: usize) -> String {
    let room = width.saturating_sub(3 * FIGURES + 4).max(20);
    let name = harmless_lines(name);
    let is_long = name.chars().count() > room;
    let shown: String = if is_long { name.chars().take(room - 3).chain("...".chars()).collect() } else { name.into() };
    format!("  {pinned:>0$}{live:>0$}{allocated:>0$}  {shown}\n", FIGURES)
}

/// The answer for a script, with the tree.
pub fn json(found: &SiteReport, tree: &Caller, order: SiteOrder) -> String {
    let besides = json!({ "sort": order.name(), "callers": value(tree), "wrappers": super::of_wrappers(found), "notes": found.notes });
    document("who", &[answer(found, None)], object(besides))
}

fn value(caller: &Caller) -> Value {
    let of = |figures: FunctionFigures| {
        let FunctionFigures { pinned, live, allocated, blocks } = figures;
        object(
            json!({ "pinned_bytes": pinned, "requested_bytes": live, "allocated_total_bytes": allocated, "blocks": blocks }),
        )
    };
    let mut out = object(json!({ "name": caller.name, "module": caller.module }));
    out.extend(of(caller.figures));
    let (count, sum) = caller.others;
    let mut others = object(json!({ "count": count }));
    others.extend(of(sum));
    out.insert("callers".into(), caller.callers.iter().map(value).collect());
    out.insert("others".into(), if count > 0 { others.into() } else { Value::Null });
    out.insert("is_deeper".into(), caller.is_deeper.into());
    out.into()
}

/// The tree for a page. Only the site's name is visible until a reader opens it.
pub fn markup(tree: &Caller) -> Markup {
    html! {
        details.callers {
            summary { code { (tree.name) } " " small { (held(tree.figures)) } }
            @if tree.callers.is_empty() && tree.others.0 == 0 { p.note { "No caller is known." } }
            (below(tree))
        }
    }
}

fn below(caller: &Caller) -> Markup {
    html! {
        ul {
            @for next in &caller.callers {
                li { code { (next.name) } " " small { (held(next.figures)) } (below(next)) }
            }
            @if caller.others.0 > 0 { li { (caller.others.0) " others " small { (held(caller.others.1)) } } }
            @if caller.is_deeper { li { "..." } }
        }
    }
}

fn held(of: FunctionFigures) -> String {
    let [pinned, live, allocated] = figures(of);
    format!("{pinned} pinned, {live} requested, {allocated} allocated")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::views::who::tests::found;

    const MIB: u64 = 1 << 20;

    fn tree() -> Caller {
        let of =
            |mib| FunctionFigures { pinned: mib * MIB, live: mib * MIB / 2, allocated: 2 * mib * MIB, blocks: mib };
        let caller =
            |name: &str, mib, callers| Caller { name: name.into(), figures: of(mib), callers, ..Caller::default() };
        let main = Caller { is_deeper: true, ..caller("main", 12, Vec::new()) };
        let long = caller("a_function_with_a_name_that_is_longer_than_the_line", 12, vec![main]);
        Caller { others: (2, of(4)), ..caller("dictAddRaw", 24, vec![long, caller("dbAdd", 8, Vec::new())]) }
    }

    #[test]
    fn a_tree_has_a_line_for_each_function_and_fits_the_terminal() {
        let mut found = found();
        found.notes.clear();
        let said = text(&found, &tree(), SiteOrder::Pinned, &TerminalStyle { color: false, width: 80 });
        let wanted = "\
Who calls `dictAddRaw`, when idle: each function under the one that it calls,
those that pin most first
      pinned requested allocated  function
    24.0 MiB  12.0 MiB  48.0 MiB  dictAddRaw
    12.0 MiB  6.00 MiB  24.0 MiB    a_function_with_a_name_that_is_longer_tha...
    12.0 MiB  6.00 MiB  24.0 MiB      main
                                        ...
    8.00 MiB  4.00 MiB  16.0 MiB    dbAdd
    4.00 MiB  2.00 MiB  8.00 MiB    2 others
";
        assert_eq!(said, wanted, "{said}");
    }

    #[test]
    fn a_script_and_a_page_have_the_same_tree() {
        let value: Value = serde_json::from_str(&json(&found(), &tree(), SiteOrder::Requested)).unwrap();
        let of = &value["callers"];
        assert_eq!(
            (&of["name"], &of["pinned_bytes"], &of["others"]["count"]),
            (&"dictAddRaw".into(), &(24 * MIB).into(), &2.into())
        );
        assert_eq!(
            (&of["callers"][0]["callers"][0]["is_deeper"], &of["callers"][1]["others"]),
            (&true.into(), &Value::Null)
        );
        let html = markup(&tree()).into_string();
        assert!(html.contains("<code>dbAdd</code> <small>8.00 MiB pinned, 4.00 MiB requested"), "{html}");
        assert!(html.contains("2 others") && html.contains("<li>...</li>"), "{html}");
    }
}
