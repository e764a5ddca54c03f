//! The head of one study's part of the page: its question, its metrics, and figures that others have published.
//! In: a section. Out: HTML; empty for a study that has none of these.

use crate::figures::{self, Figure};
use crate::markup::{candidate, escaped, prose};
use allocanary_study::summary::{Section, Verdict};

/// The head of the study at `place`. If `several` studies are on the page, its question is not that of the page.
pub fn head(place: usize, section: &Section, several: bool) -> String {
    let heading = figures::heading(section);
    let heading =
        if several && !heading.is_empty() { format!("<h2>{}</h2>\n", escaped(&heading)) } else { String::new() };
    let (table, published) = (table(section), published(section));
    if [&heading, &table, &published].iter().all(|part| part.is_empty()) {
        return String::new();
    }
    format!("<section id=\"study-{place}\">\n{heading}{table}{published}</section>\n")
}

fn table(section: &Section) -> String {
    if section.about.metrics.is_empty() {
        return String::new();
    }
    let columns = section.about.metrics.len() + 2;
    let heads = section.about.metrics.iter();
    let heads: String = heads.map(|metric| format!("<th scope=\"col\">{}</th>", metric.name)).collect();
    let mut body = String::new();
    for block in figures::blocks(section) {
        body.push_str(&format!(
            "<tr><th scope=\"rowgroup\" colspan=\"{columns}\">{}</th></tr>\n",
            escaped(&block.title)
        ));
        for row in block.rows {
            let cells: String = row.figures.iter().map(cell).collect();
            let name = candidate(&row.candidate);
            body.push_str(&format!(
                "<tr><th scope=\"row\" class=\"name\"><code>{name}</code></th><td>{}</td>{cells}</tr>\n",
                row.n
            ));
        }
    }
    format!(
        "<div class=\"scroll\" tabindex=\"0\">\n<table>\n<thead><tr><th scope=\"col\">candidate</th><th scope=\"col\">n</th>{heads}</tr></thead>\n\
         <tbody>\n{body}</tbody>\n</table>\n</div>\n<p class=\"note\">{} {}</p>\n",
        prose(&figures::key(section)),
        prose(&figures::meanings(section)),
    )
}

fn cell(figure: &Figure) -> String {
    let class = match figure.verdict {
        Some(Verdict::Better) => " class=\"better\"",
        Some(Verdict::Worse) => " class=\"worse\"",
        _ => "",
    };
    let mark = if figure.mark.is_empty() { String::new() } else { format!("{} ", figure.mark) };
    format!("<td{class}>{mark}{}<small>{}</small></td>", escaped(&figure.median), escaped(&figure.interval))
}

fn published(section: &Section) -> String {
    let items: String =
        figures::published(section).iter().map(|line| format!("<li>{}</li>\n", escaped(line))).collect();
    if items.is_empty() { items } else { format!("<h3>Published</h3>\n<ul>\n{items}</ul>\n") }
}
