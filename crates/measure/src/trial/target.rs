//! The target of a trial: a workload, and the variables that one replica gets. In: a person's text. Out: checked values.

use serde::Serialize;

/// A workload, in the form in which `allocanary fleet` prints it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TrialTarget {
    /// Its namespace; `None` if any namespace may have it.
    pub namespace: Option<String>,
    /// `deployment`, `statefulset`, `daemonset`.
    pub kind: String,
    /// Its name.
    pub name: String,
    /// The container; `None` for the one with the most memory.
    pub container: Option<String>,
}

/// A variable that the changed replica gets.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct TrialVariable {
    /// Its name.
    pub name: String,
    /// Its value.
    pub value: String,
}

/// The end of a canary's name.
pub const CANARY: &str = "-allocanary";
/// The kinds that have replicas, with the names that kubectl takes for them.
const KINDS: [(&str, &[&str]); 3] = [
    ("deployment", &["deployments", "deploy", "deployment.apps"]),
    ("statefulset", &["statefulsets", "sts", "statefulset.apps"]),
    ("daemonset", &["daemonsets", "ds", "daemonset.apps"]),
];

/// Whether Kubernetes allows this name. Such a name has no character that is special for a shell.
pub fn is_name(word: &str) -> bool {
    let plain = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"-.".contains(&byte);
    !word.is_empty() && word.len() <= 253 && word.bytes().all(plain) && !word.starts_with('-')
}

impl TrialTarget {
    /// Parses `[NAMESPACE/]KIND/NAME[/CONTAINER]`. The error says what was wanted.
    pub fn parse(text: &str) -> Result<TrialTarget, String> {
        let wanted = || {
            format!(
                "`{text}`: wanted [NAMESPACE/]KIND/NAME[/CONTAINER], such as shop/deployment/web, where KIND is deployment, statefulset or daemonset"
            )
        };
        let words: Vec<&str> = text.split('/').collect();
        let kind_at = |at: usize| {
            let word = words.get(at)?.to_ascii_lowercase();
            KINDS.iter().find(|(kind, short)| *kind == word || short.contains(&word.as_str())).map(|(kind, _)| *kind)
        };
        // The kind is the first word if there are two; otherwise a namespace may be before it.
        let at = match (words.len(), kind_at(0), kind_at(1)) {
            (2, Some(_), _) => 0,
            (3 | 4, _, Some(_)) => 1,
            (3, Some(_), None) => 0,
            _ => return Err(wanted()),
        };
        let (Some(kind), Some(name)) = (kind_at(at), words.get(at + 1)) else { return Err(wanted()) };
        let container = words.get(at + 2).map(|word| (*word).to_string());
        let namespace = (at == 1).then(|| words[0].to_string());
        let is_sound = [Some(*name), namespace.as_deref(), container.as_deref()].into_iter().flatten().all(is_name);
        match is_sound {
            true => Ok(TrialTarget { namespace, kind: kind.into(), name: (*name).into(), container }),
            false => Err(wanted()),
        }
    }

    /// `deployment/web`, as agents name it.
    pub fn workload(&self) -> String {
        format!("{}/{}", self.kind, self.name)
    }

    /// `deployment/web-allocanary`.
    pub fn canary(&self) -> String {
        format!("{}/{}{CANARY}", self.kind, self.name)
    }
}

impl TrialVariable {
    /// Parses `NAME=VALUE`, separated by spaces. A value with spaces must be in quotes: `'A=b c'` or `A="b c"`.
    pub fn parse_all(text: &str) -> Result<Vec<TrialVariable>, String> {
        let variables: Vec<TrialVariable> =
            words(text)?.iter().map(|word| TrialVariable::parse(word)).collect::<Result<_, _>>()?;
        match variables.is_empty() {
            true => Err("--env: wanted NAME=VALUE, such as MALLOC_ARENA_MAX=2, found nothing".into()),
            false => Ok(variables),
        }
    }

    fn parse(word: &str) -> Result<TrialVariable, String> {
        let plain = |name: &str| {
            let all = name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"_.-".contains(&byte));
            all && name.bytes().next().is_some_and(|first| !first.is_ascii_digit())
        };
        match word.split_once('=') {
            Some((name, value)) if plain(name) => Ok(TrialVariable { name: name.into(), value: value.into() }),
            _ => Err(format!("--env: wanted NAME=VALUE, such as MALLOC_ARENA_MAX=2, found `{word}`")),
        }
    }

    /// `MALLOC_ARENA_MAX=2`.
    pub fn line(&self) -> String {
        format!("{}={}", self.name, self.value)
    }
}

/// Splits a text at spaces outside of quotes. Inside quotes nothing else is special: `\` is an ordinary character.
fn words(text: &str) -> Result<Vec<String>, String> {
    let (mut words, mut word, mut quote) = (Vec::new(), None::<String>, None);
    for c in text.chars() {
        match quote {
            Some(open) if open == c => quote = None,
            None if c == '\'' || c == '"' => {
                quote = Some(c);
                word.get_or_insert_default();
            }
            None if c.is_whitespace() => words.extend(word.take()),
            _ => word.get_or_insert_default().push(c),
        }
    }
    if let Some(open) = quote {
        return Err(format!("--env: wanted a second {open}, found the end of `{text}`"));
    }
    words.extend(word);
    Ok(words)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(text: &str) -> Option<(Option<String>, String, Option<String>)> {
        let one = TrialTarget::parse(text).ok()?;
        Some((one.namespace.clone(), one.workload(), one.container))
    }

    #[test]
    fn a_workload_is_named_as_fleet_and_kubectl_name_it() {
        let of = |namespace: Option<&str>, workload: &str, container: Option<&str>| {
            Some((namespace.map(String::from), workload.to_string(), container.map(String::from)))
        };
        assert_eq!(told("deployment/web"), of(None, "deployment/web", None));
        assert_eq!(told("shop/deploy/web"), of(Some("shop"), "deployment/web", None));
        assert_eq!(told("shop/statefulset/db/main"), of(Some("shop"), "statefulset/db", Some("main")));
        assert_eq!(told("sts/db/main"), of(None, "statefulset/db", Some("main")));
        assert_eq!(told("ds/sts/web"), of(Some("ds"), "statefulset/web", None), "a name space may be named so");
        for bad in
            ["web", "deployment/", "job/x", "a/b", "deployment/we;b", "deployment/$(x)", "a/b/c/d/e", "deploy/-x"]
        {
            assert!(TrialTarget::parse(bad).unwrap_err().contains("wanted [NAMESPACE/]"), "{bad}");
        }
        assert_eq!(TrialTarget::parse("deploy/web").unwrap().canary(), "deployment/web-allocanary");
    }

    #[test]
    fn lines_are_variables_and_quotes_keep_spaces() {
        let of = |text: &str| {
            TrialVariable::parse_all(text).map(|all| all.iter().map(TrialVariable::line).collect::<Vec<_>>())
        };
        assert_eq!(of("A=1  B_2=x=y").unwrap(), ["A=1", "B_2=x=y"]);
        assert_eq!(of("'A=b c' D=\"e 'f\" G=").unwrap(), ["A=b c", "D=e 'f", "G="]);
        for bad in ["", "A", "1A=2", "A=1 b", "A='x", "=1", "a b=1"] {
            assert!(of(bad).unwrap_err().starts_with("--env: wanted "), "{bad}");
        }
    }
}
