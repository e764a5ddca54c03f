//! The answer. In: contents. Out: a sentence or two.

use allocanary_contents::{Contents, LIKENESS, Leaked, Lost};

use super::{bytes, count};

/// A part is large if it has at least this fraction (one in 20) of all bytes.
const ALIKE: u64 = 20;

/// A sentence about the leaks, and one about the largest holder.
pub fn answer(contents: &Contents) -> String {
    let mut sentences = vec![match &contents.leaked {
        Some(leaked) if leaked.blocks > 0 => lost(leaked),
        Some(_) if contents.blocks > 0 => {
            format!("Nothing is leaked: something leads to each of {} objects.", count(contents.blocks))
        }
        _ => "What is leaked is not known; the reason is below.".into(),
    }];
    sentences.extend(most(contents));
    sentences.extend(alike(contents));
    sentences.join(" ")
}

fn lost(leaked: &Leaked) -> String {
    let verb = if leaked.blocks == 1 { "is" } else { "are" };
    let first = leaked.rows.first();
    let most = first.map(|row| format!(", {} of them {}", count(row.blocks), row.kind));
    let most = most.filter(|_| leaked.blocks > 1).unwrap_or_default();
    let by = first.and_then(by).unwrap_or_default();
    format!("{} in {} {verb} leaked{most}{by}.", bytes(leaked.bytes), blocks(leaked.blocks))
}

/// The call site of most of the sampled blocks.
fn by(row: &Lost) -> Option<String> {
    let site = row.sites.first()?;
    Some(format!(", allocated by `{}` ({} of {} sampled)", site.name, count(site.blocks), count(row.blocks)))
}

/// A sentence about the blocks that can be reached only through bytes that look like pointers, if these blocks are a large part.
fn alike(contents: &Contents) -> Option<String> {
    let alike = contents.alike;
    let verb = if alike.blocks == 1 { "is" } else { "are" };
    (alike.bytes.saturating_mul(ALIKE) >= contents.bytes && alike.blocks > 0).then(|| {
        format!(
            "{} in {} {verb} reachable only through bytes that look like a pointer.",
            bytes(alike.bytes),
            blocks(alike.blocks)
        )
    })
}

/// The largest holder, or the largest kind if nobody searched for holders.
fn most(contents: &Contents) -> Option<String> {
    let Some(holder) = contents.holders.iter().find(|holder| holder.name != LIKENESS) else {
        let kind = contents.kinds.first()?;
        return Some(format!("Of {} of objects, {} is {}.", bytes(contents.bytes), bytes(kind.bytes), kind.kind));
    };
    let largest = holder.inside.iter().max_by_key(|inside| inside.bytes);
    let inside =
        largest.map(|inside| format!(", {} of it in {} x {}", bytes(inside.bytes), count(inside.blocks), inside.kind));
    Some(format!(
        "Of {} of objects, {} holds {} in {}{}.",
        bytes(contents.bytes),
        holder.name,
        bytes(holder.bytes),
        blocks(holder.blocks),
        inside.unwrap_or_default()
    ))
}

fn blocks(number: u64) -> String {
    if number == 1 { "1 block".into() } else { format!("{} blocks", count(number)) }
}
