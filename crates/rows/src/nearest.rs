//! What a user may have meant by a misspelt name. In: the name, the names that there are. Out: the nearest ones.

/// Suggestions for a misspelt name: at most three names that are nearest to `wanted`, best first.
pub fn nearest<'a>(wanted: &str, names: impl IntoIterator<Item = &'a str>) -> Vec<&'a str> {
    let mut scored: Vec<(f64, &str)> =
        names.into_iter().map(|name| (strsim::jaro_winkler(wanted, name), name)).collect();
    scored.retain(|(score, _)| *score > 0.7);
    scored.sort_by(|a, b| b.0.total_cmp(&a.0).then(a.1.cmp(b.1)));
    scored.into_iter().take(3).map(|(_, name)| name).collect()
}

/// The name that a user has mistyped: one letter of four may be wrong, or one of three. A name that only looks
/// alike is none.
pub fn mistyped<'a>(wanted: &str, names: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let most = match wanted.chars().count() {
        0..=2 => 0,
        letters => (letters / 4).max(1),
    };
    let near = names.into_iter().map(|name| (strsim::osa_distance(wanted, name), name));
    near.filter(|(distance, _)| *distance <= most).min().map(|(_, name)| name)
}

/// What a user may have meant: `; perhaps narenas or narenas_ratio`. If no name is similar, it lists all names.
pub fn perhaps<'a>(wanted: &str, names: impl Iterator<Item = &'a str> + Clone) -> String {
    let near = nearest(wanted, names.clone());
    if !near.is_empty() {
        return format!("; perhaps {}", near.join(" or "));
    }
    let all: Vec<&str> = names.take(12).collect();
    if all.is_empty() { "; it has none".into() } else { format!("; there are {}", all.join(", ")) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nearest_name_comes_first() {
        let names = ["narenas", "tcache", "tcache_max", "retain"];
        assert_eq!(nearest("narena", names), ["narenas"]);
        assert_eq!(nearest("tcachemax", names)[0], "tcache_max");
        assert!(nearest("zzz", names).is_empty());
    }

    #[test]
    fn a_name_that_only_looks_alike_is_not_mistyped() {
        let verbs = ["heap", "doctor", "run", "tune", "node", "trace"];
        assert_eq!(mistyped("hepa", verbs), Some("heap"));
        assert_eq!(mistyped("doctr", verbs), Some("doctor"));
        assert_eq!(mistyped("run", verbs), Some("run"));
        for other in ["cron", "dockerd", "haproxy", "node-exporter", "traefik", "nu"] {
            assert_eq!(mistyped(other, verbs), None, "{other}");
        }
    }
}
