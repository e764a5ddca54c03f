# Ruby with fibers (stacks of its own), threads, and a collection that moves objects.
packages="ruby"
program() { readlink -f "$(command -v ruby)"; }
version() { ruby -e 'puts RUBY_VERSION'; }
run() {
    ruby << 'RUBY'
require 'json'
require 'digest'
require 'zlib'
rows = (0...20000).map { |i| { 'id' => i, 'name' => 'n' * (i % 300) } }
puts Digest::SHA256.hexdigest(JSON.generate(JSON.parse(JSON.generate(rows))))
GC.start
GC.compact
puts rows.sum { |row| row['name'].size }
fibers = (1..300).map do |n|
  Fiber.new { (1..20).sum { |i| text = 'x' * (n * i); Fiber.yield(text.size); IO.select(nil, nil, nil, 0.002) if i == n % 20; text.size } }
end
total = 0
until fibers.empty?
  fibers.reject! { |fiber| total += fiber.resume; !fiber.alive? }
end
puts total
queue = Queue.new
threads = (1..6).map { |n| Thread.new { sleep 0.01; 40.times { |i| queue << ['y' * (n * i)].pack('m').size } } }
threads.each(&:join)
puts (1..queue.size).sum { queue.pop }
puts Zlib.inflate(Zlib.deflate('abc' * 500_000)).size
squares = Enumerator.new { |out| n = 0; loop { out << n * n; n += 1 } }
puts 100.times.sum { squares.next }
read, write = IO.pipe
pid = fork { read.close; write.write('z' * 200_000); exit!(7) }
write.close
puts read.read.size
Process.wait(pid)
puts $?.exitstatus
RUBY
}
