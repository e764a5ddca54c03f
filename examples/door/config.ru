# A Rack application: each request builds and joins strings. Of each a little stays, as in a cache.
CACHE = []
run lambda { |environment|
  asked = environment['QUERY_STRING'].scan(/(\w+)=(\d+)/).to_h
  chance = Random.new(asked['seed'].to_i)
  rows, taken, size = [], 0, asked['size'].to_i
  while taken < size
    text = 'x' * (64 * 256**chance.rand).to_i
    rows << { id: chance.rand, text: text }
    taken += text.size + 200
  end
  joined = rows.sort_by { |row| row[:id] }.map { |row| row[:text] }.join(',')
  CACHE << rows[chance.rand(rows.size)][:text]
  CACHE.shift if CACHE.size > 2000
  [200, { 'Content-Type' => 'text/plain' }, [joined.size.to_s]]
}
