/// Allocates and frees a block as often as the first argument says, by two functions of C's malloc family.
fn main() {
    let pairs: usize = std::env::args().nth(1).and_then(|text| text.parse().ok()).unwrap_or(0);
    for pair in 0..pairs {
        // Four size classes take turns. black_box hides from the compiler that nothing is stored.
        // SAFETY: any size may be asked for, and the block goes back to its allocator.
        unsafe { free(std::hint::black_box(malloc(std::hint::black_box(16 << (2 * (pair % 4)))))) };
    }
}
