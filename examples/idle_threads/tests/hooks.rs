//! Each runtime's hook, in processes of their own: the threads that wait keep less memory with it than without.

use std::process::Command;

/// Runs a runtime once, and returns its requests per second and its idle bytes.
fn once(program: &str, policy: &str) -> (f64, f64) {
    let output = Command::new(program).arg("once").env("ALLOCANARY_IDLE", policy).output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    let numbers: Vec<f64> = text.split_whitespace().map(|word| word.parse().unwrap()).collect();
    assert!(output.status.success() && numbers.len() == 2, "{policy}: {output:?}");
    (numbers[0], numbers[1])
}

/// The hook takes effect when threads have waited for 10 to 200 ms. The program rests for a second.
fn gives_back(program: &str) {
    let ((served, kept), (also_served, left)) = (once(program, "keep"), once(program, "give_back"));
    assert!(served > 0.0 && also_served > 0.0);
    assert!(left < kept * 0.8, "{left} bytes idle with the hook, {kept} without");
}

#[test]
fn threads_that_wait_for_a_condition_variable() {
    gives_back(env!("CARGO_BIN_EXE_threads"));
}

#[test]
fn workers_of_tokio() {
    gives_back(env!("CARGO_BIN_EXE_tokio"));
}

#[test]
fn threads_of_tokios_blocking_pool() {
    gives_back(env!("CARGO_BIN_EXE_tokio_blocking"));
}

#[test]
fn threads_of_rayon() {
    gives_back(env!("CARGO_BIN_EXE_rayon"));
}

#[test]
fn workers_of_hyper() {
    gives_back(env!("CARGO_BIN_EXE_hyper"));
}

#[test]
fn workers_of_actix() {
    gives_back(env!("CARGO_BIN_EXE_actix"));
}
