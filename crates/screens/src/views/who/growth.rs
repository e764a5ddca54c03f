//! Which sites grow, and how fast. In: sites with their slopes. Out: a cell of the table, and a sentence.

use allocanary_text::units::Unit;
use allocanary_who::slope::Slope;
use allocanary_who::{AllocationSite, By, SiteReport};

/// The number of sites that the sentence names.
const NAMED: usize = 3;

/// Bytes a minute, as a table shows them.
pub fn a_minute(slope: &Slope) -> String {
    // A zero gets no sign.
    Unit::Bytes.show((slope.per_second * 60.0).round() + 0.0)
}

/// The sum of two slopes, without an interval.
pub fn both(one: Option<Slope>, other: Option<Slope>) -> Option<Slope> {
    let per_second = |slope: Option<Slope>| slope.map_or(0.0, |slope| slope.per_second);
    one.or(other).map(|_| Slope { per_second: per_second(one) + per_second(other), ..Slope::default() })
}

/// `` `leak` grows by 1.20 MiB a minute [1.15, 1.26], from ready until the end of the load. `` The sentence names the sites that grow
/// fastest of all. The table may not show these: a leak of whole pages pins nothing.
pub fn grown(found: &SiteReport) -> Option<String> {
    if found.freed_from_before.is_some() {
        return in_window(found);
    }
    let growing = found.sites.iter().filter(|site| site.grows);
    let mut growing: Vec<(&AllocationSite, Slope)> = growing.filter_map(|site| Some((site, site.slope?))).collect();
    growing.sort_by(|(_, a), (_, b)| b.per_second.total_cmp(&a.per_second));
    let (first, ..) = growing.first()?;
    let quote =
        |site: &AllocationSite| if found.by == By::Thread { site.name.clone() } else { format!("`{}`", site.name) };
    let mut text = format!("{} grows by {}", quote(first), rate(&growing[0].1));
    for (site, slope) in &growing[1..growing.len().min(NAMED)] {
        text.push_str(&format!(", {} by {}", quote(site), rate(slope)));
    }
    let when = found.span.map_or(String::new(), |span| format!(", {}", span.words));
    Some(format!("{text}{when}."))
}

/// How many blocks more a site holds than at the beginning of the window, at least and at most. All of its live blocks were allocated in
/// the window. All older blocks that were freed in the window may have been its own, which gives the minimum. `None` for other traces, and
/// for a sample.
pub fn blocks_in_window(found: &SiteReport, site: &AllocationSite) -> Option<(u64, u64)> {
    let before = found.freed_from_before.filter(|_| found.one_in.is_none())?;
    Some((site.blocks.saturating_sub(before), site.blocks))
}

/// The sites that certainly hold more blocks than at the beginning of the window.
fn in_window(found: &SiteReport) -> Option<String> {
    let before = found.freed_from_before?;
    let bounds = |site| Some((site, blocks_in_window(found, site)?));
    let mut surely: Vec<(&AllocationSite, (u64, u64))> =
        found.sites.iter().filter_map(bounds).filter(|(_, (least, _))| *least > 0).collect();
    // Bytes of the blocks that are certainly additional, if all blocks have the same size.
    let worth = |(site, (least, most)): &(&AllocationSite, (u64, u64))| site.live as f64 * *least as f64 / *most as f64;
    surely.sort_by(|a, b| worth(b).total_cmp(&worth(a)));
    let show = |number: u64| Unit::Count.show(number as f64);
    let freed = match before {
        0 => "no block from before was freed in it".to_string(),
        1 => "1 block from before was freed in it, and which site had made it is not known".to_string(),
        _ => {
            format!("{} blocks from before were freed in it, and which sites had made them is not known", show(before))
        }
    };
    if surely.is_empty() {
        let is_known = found.one_in.is_none() && !found.sites.is_empty();
        return is_known.then(|| format!("Whether a site grew in the window is not known: {freed}."));
    }
    let quote =
        |site: &AllocationSite| if found.by == By::Thread { site.name.clone() } else { format!("`{}`", site.name) };
    let named = surely.iter().take(NAMED).map(|(site, (least, most))| {
        let range = if least == most { show(*most) } else { format!("{} to {}", show(*least), show(*most)) };
        format!("{} {range} (at most {})", quote(site), Unit::Bytes.show(site.live as f64))
    });
    let named: Vec<String> = named.collect();
    Some(format!(
        "By how many blocks sites grew in the window: {}. {}{}.",
        named.join(", "),
        freed[..1].to_uppercase(),
        &freed[1..]
    ))
}

/// `1.20 MiB a minute [1.15, 1.26]`.
fn rate(slope: &Slope) -> String {
    let [middle, low, high] = [slope.per_second, slope.low, slope.high].map(|rate| rate * 60.0);
    let units = [(1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB")];
    let (size, unit) = units.into_iter().find(|(size, _)| middle >= f64::from(*size)).unwrap_or((1, "B"));
    let shown = |rate: f64| rate / f64::from(size);
    // The rate has three digits, and the interval has the same number of decimals.
    let decimals = match shown(middle) {
        rate if rate >= 99.95 => 0,
        rate if rate >= 9.995 => 1,
        _ => 2,
    };
    format!("{:.decimals$} {unit} a minute [{:.decimals$}, {:.decimals$}]", shown(middle), shown(low), shown(high))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::views::who::tests::found;

    const MIB: f64 = 1048576.0 / 60.0;

    #[test]
    fn a_rate_has_the_unit_of_its_size_and_its_interval_the_same() {
        let of = |per_second, low, high| rate(&Slope { per_second, low, high });
        assert_eq!(of(1.2 * MIB, 1.15 * MIB, 1.26 * MIB), "1.20 MiB a minute [1.15, 1.26]");
        assert_eq!(of(1023.0 * MIB, 900.0 * MIB, 1100.0 * MIB), "1023 MiB a minute [900, 1100]");
        assert_eq!(of(0.05 * MIB, 0.0, 0.1 * MIB), "51.2 KiB a minute [0.0, 102.4]");
        assert_eq!(of(0.1, 0.05, 0.15), "6.00 B a minute [3.00, 9.00]");
        assert_eq!(a_minute(&Slope { per_second: -MIB, ..Slope::default() }), "-1.00 MiB");
        assert_eq!(a_minute(&Slope { per_second: -0.001, ..Slope::default() }), "0 B");
    }

    #[test]
    fn the_three_that_grow_fastest_are_named_wherever_they_are() {
        let mut found = found();
        assert_eq!(
            grown(&found).unwrap(),
            "`dictAddRaw` grows by 1.20 MiB a minute [1.15, 1.26], from ready until the end of the load."
        );
        found.sites[1].grows = true;
        found.sites[1].slope = Some(Slope { per_second: 2.0 * MIB, low: MIB, high: 3.0 * MIB });
        let said = grown(&found).unwrap();
        assert!(
            said.starts_with("`_sdsnewlen` grows by 2.00 MiB a minute [1.00, 3.00], `dictAddRaw` by 1.20"),
            "{said}"
        );
        // A leak of whole pages: nothing is pinned, and the site is the last of many.
        let slow = found.sites[2].clone();
        found.sites.extend(vec![slow; 40]);
        let leak = AllocationSite {
            grows: true,
            slope: Some(Slope { per_second: 9.0 * MIB, low: MIB, high: 17.0 * MIB }),
            ..found.sites[3].clone()
        };
        found.sites.push(AllocationSite { name: "whole_pages".into(), ..leak.clone() });
        found.sites.push(AllocationSite { name: "the_fourth".into(), slope: Some(Slope::default()), ..leak });
        let said = grown(&found).unwrap();
        assert!(
            said.starts_with("`whole_pages` grows by 9.00 MiB a minute [1.00, 17.00], `_sdsnewlen` by 2.00")
                && said.contains("`dictAddRaw`")
                && !said.contains("the_fourth"),
            "{said}"
        );
        found.sites.iter_mut().for_each(|site| site.grows = false);
        assert_eq!(grown(&found), None);
    }

    #[test]
    fn in_a_window_a_site_grew_for_sure_if_it_holds_more_blocks_than_older_ones_were_freed() {
        let windowed = |before| SiteReport { freed_from_before: Some(before), ..found() };
        let mut grew = windowed(480);
        grew.sites[1].blocks = 300;
        let said = grown(&grew).unwrap();
        let wanted = "By how many blocks sites grew in the window: `dictAddRaw` 20 to 500 (at most 20.0 MiB), `(no stack)` 20 to 500";
        assert!(said.starts_with(wanted) && !said.contains("_sdsnewlen"), "{said}");
        assert!(
            said.ends_with(". 480 blocks from before were freed in it, and which sites had made them is not known."),
            "{said}"
        );
        assert_eq!(blocks_in_window(&grew, &grew.sites[1]), Some((0, 300)));
        let exact = grown(&windowed(0)).unwrap();
        assert!(
            exact.contains("`_sdsnewlen` 500 (at most 24.0 MiB)")
                && exact.ends_with("No block from before was freed in it."),
            "{exact}"
        );
        let unknown = grown(&windowed(500)).unwrap();
        assert!(unknown.starts_with("Whether a site grew in the window is not known: 500 blocks"), "{unknown}");
        let sample = SiteReport { one_in: Some(10.0), ..windowed(0) };
        assert_eq!((grown(&sample), blocks_in_window(&sample, &sample.sites[0])), (None, None));
        assert_eq!(blocks_in_window(&found(), &found().sites[0]), None);
    }

    #[test]
    fn a_sum_is_of_those_that_are_known() {
        let slope = |per_second| Some(Slope { per_second, ..Slope::default() });
        assert_eq!((both(None, None), both(slope(1.0), None)), (None, slope(1.0)));
        assert_eq!(both(slope(1.0), slope(2.0)), slope(3.0));
    }
}
