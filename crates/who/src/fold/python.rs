//! Recognises frames of Python: its functions, those of its standard library, and those of the interpreter.

use allocanary_names::NamedFrame;
use allocanary_names::perf_map::PYTHON;

/// Whether a frame is a function in Python: a perf map names it.
pub(super) fn is_function(frame: &NamedFrame) -> bool {
    frame.module == PYTHON
}

/// Whether the functions of this file belong to the standard library.
pub(super) fn is_library(file: &str) -> bool {
    let is_installed = file.contains("/site-packages/") || file.contains("/dist-packages/");
    file.starts_with("<frozen ")
        || !is_installed && ["/lib/python3.", "/lib64/python3."].iter().any(|part| file.contains(part))
}

/// Whether a frame belongs to the interpreter, or to a C module that Python calls. Such a frame is no site: only the caller in Python says
/// what the memory is for.
pub(super) fn is_interpreter(frame: &NamedFrame) -> bool {
    let module = &frame.module;
    let is_program = || {
        let version = module.strip_prefix("python").map(|version| version.trim_end_matches(['d', 't']));
        version.is_some_and(|version| version.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.'))
    };
    let is_extension = || module.ends_with(".abi3.so") || module.ends_with(".so") && module.contains(".cpython-3");
    // Other programs can contain the interpreter.
    let is_api = || {
        let name = frame.function.trim_start_matches('_').strip_prefix("Py");
        name.is_some_and(|name| name.starts_with(|letter: char| letter == '_' || letter.is_ascii_uppercase()))
    };
    module.starts_with("libpython") || is_program() || is_extension() || frame.is_named() && is_api()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fold::{Folding, site};
    use allocanary_names::NameSource;

    fn frame(module: &str, function: &str) -> NamedFrame {
        let file = function.split_once(':').filter(|_| module == PYTHON).map_or("", |(_, file)| file).into();
        let source = if function.contains("+0x") { NameSource::None } else { NameSource::Map };
        NamedFrame { function: function.into(), source, file, module: module.into(), ..NamedFrame::default() }
    }

    fn of(frames: &[(&str, &str)]) -> String {
        let frames: Vec<NamedFrame> = frames.iter().map(|(module, function)| frame(module, function)).collect();
        site(&frames, &Folding::default()).map(|at| frames[at].function.clone()).unwrap_or_default()
    }

    #[test]
    fn the_site_is_the_function_in_python_that_the_interpreter_works_for() {
        let inner = [
            ("preload-record", "malloc"),
            ("libpython3.12.so.1.0", "_PyObject_Malloc"),
            ("libpython3.12.so.1.0", "list_resize"),
            ("_json.cpython-312-x86_64-linux-gnu.so", "scan_once_unicode"),
            ("lib.abi3.so", "lib.abi3.so+0x12"),
            ("libpython3.12.so.1.0", "_PyEval_EvalFrameDefault"),
        ];
        let outer = [
            ("libpython3.12.so.1.0", "_PyFunction_Vectorcall"),
            ("[python]", "<module>:/srv/app.py"),
            ("libpython3.12.so.1.0", "PyEval_EvalCode"),
            ("python3.12", "main"),
        ];
        let library = [
            ("[python]", "raw_decode:/usr/lib/python3.12/json/decoder.py"),
            ("libpython3.12.so.1.0", "_PyEval_EvalFrameDefault"),
        ];
        let load = [("[python]", "load:/srv/app.py")];
        assert_eq!(of(&[&inner[..], &load, &outer].concat()), "load:/srv/app.py");
        assert_eq!(of(&[&inner[..], &library, &load, &outer].concat()), "load:/srv/app.py");
        assert_eq!(of(&[&inner[..], &library, &outer[2..]].concat()), library[0].1, "there is no other");
        // Without a function in Python the interpreter's functions are sites.
        assert_eq!(of(&[&inner[..], &outer[2..]].concat()), "list_resize");
        // A C library that Python calls is treated like a program.
        assert_eq!(of(&[&inner[..1], &[("libtorch.so", "grow")], &load].concat()), "grow");
        // A program with an interpreter in it, and a stripped Python.
        let embedded = [
            ("malloc.so", "malloc"),
            ("uwsgi", "_Py_NewRef"),
            ("uwsgi", "PyList_New"),
            ("python3.12", "python3.12+0x10"),
        ];
        assert_eq!(of(&[&embedded[..], &[("[python]", "_start:/srv/_malloc.py")]].concat()), "_start:/srv/_malloc.py");
    }

    #[test]
    fn what_is_merely_called_alike_is_not_the_interpreter() {
        for (module, function) in
            [("pythonic", "f"), ("app", "Pyramid"), ("app", "Python"), ("libx.so", "f"), ("python.so", "f")]
        {
            assert!(!is_interpreter(&frame(module, function)), "{module} {function}");
        }
        for module in ["python", "python3", "python3.13t", "python3.12d", "libpython3.12.so.1.0"] {
            assert!(is_interpreter(&frame(module, "f")), "{module}");
        }
    }

    #[test]
    fn the_standard_library_is_known_by_its_folder() {
        for file in
            ["<frozen importlib._bootstrap>", "/usr/lib/python3.12/json/decoder.py", "/usr/lib64/python3.13/os.py"]
        {
            assert!(is_library(file), "{file}");
        }
        for file in [
            "/srv/app.py",
            "/venv/lib/python3.12/site-packages/x.py",
            "/usr/lib/python3/dist-packages/y.py",
            "<string>",
        ] {
            assert!(!is_library(file), "{file}");
        }
    }
}
