/// Allocates and frees a block as often as the first argument says, through the global allocator.
fn main() {
    let pairs: usize = std::env::args().nth(1).and_then(|text| text.parse().ok()).unwrap_or(0);
    for pair in 0..pairs {
        // Four size classes take turns. black_box hides from the compiler that nothing is stored.
        let block: Vec<u8> = Vec::with_capacity(std::hint::black_box(16 << (2 * (pair % 4))));
        std::hint::black_box(&block);
    }
}
