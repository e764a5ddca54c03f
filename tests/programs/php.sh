# PHP with extensions that are C++ and C libraries (ICU, libxml2, SQLite, GD, curl), which it opens by dlopen.
packages="php-cli php-curl php-gd php-intl php-mbstring php-sqlite3 php-xml"
program() { readlink -f "$(command -v php)"; }
version() { php --version | awk 'NR == 1 { print $2 }'; }
run() {
    echo '<a><b n="1">one</b><b n="2">two</b></a>' > in.xml
    cat > all.php << 'PHP'
<?php
ini_set('memory_limit', '512M');
$rows = [];
for ($i = 0; $i < 40000; $i++) { $rows[] = ['id' => $i, 'name' => str_repeat(chr(97 + $i % 26), $i % 200)]; }
echo md5(json_encode(json_decode(json_encode($rows), true))), "\n";
usort($rows, fn($a, $b) => [$b['name'], $a['id']] <=> [$a['name'], $b['id']]);
echo $rows[0]['id'], ' ', crc32(serialize($rows)), "\n";
unset($rows);
echo mb_strtoupper('straße žluťoučký'), ' ', mb_strlen('日本語'), ' ', mb_convert_encoding("\xe9", 'UTF-8', 'ISO-8859-1'), "\n";
$words = ['côte', 'cote', 'coté', 'côté'];
(new Collator('fr_CA'))->sort($words);
echo implode(' ', $words), ' ', (new NumberFormatter('de_DE', NumberFormatter::DECIMAL))->format(1234567.891), "\n";
echo Normalizer::normalize("e\u{301}", Normalizer::FORM_C) === 'é' ? "normal\n" : "not\n";
$document = new DOMDocument();
$document->load('in.xml');
for ($i = 0; $i < 5000; $i++) { $document->documentElement->appendChild($document->createElement('c', "x$i")); }
echo (new DOMXPath($document))->evaluate('count(//c) + sum(//@n)'), ' ', strlen(simplexml_import_dom($document)->asXML()), "\n";
$sqlite = new PDO('sqlite::memory:');
$sqlite->exec('create table t(a integer, b text)');
$insert = $sqlite->prepare('insert into t values(?, ?)');
for ($i = 0; $i < 5000; $i++) { $insert->execute([$i, md5((string) $i)]); }
echo implode(' ', $sqlite->query('select count(*), sum(a), max(b) from t')->fetch(PDO::FETCH_NUM)), "\n";
$image = imagecreatetruecolor(300, 200);
for ($i = 0; $i < 100; $i++) { imagefilledellipse($image, $i * 3, $i * 2, 40, 20, imagecolorallocate($image, $i, 2 * $i, 255 - $i)); }
ob_start();
imagepng(imagescale($image, 150, 100));
echo md5(ob_get_clean()), "\n";
$many = curl_multi_init();
$curls = [];
for ($i = 0; $i < 8; $i++) {
    $curls[$i] = curl_init('file://' . __DIR__ . '/in.xml');
    curl_setopt($curls[$i], CURLOPT_RETURNTRANSFER, true);
    curl_multi_add_handle($many, $curls[$i]);
}
do { curl_multi_exec($many, $running); curl_multi_select($many, 0.01); } while ($running);
foreach ($curls as $curl) { echo strlen(curl_multi_getcontent($curl)), ' '; }
$sums = array_map(fn($n) => new Fiber(function () use ($n) { $sum = 0; for ($i = 0; $i < 50; $i++) { if ($i == $n) { time_nanosleep(0, 2000000); } $sum += Fiber::suspend($n * $i); } return $sum; }), range(1, 50));
$total = 0;
foreach ($sums as $fiber) { $value = $fiber->start(); while (!$fiber->isTerminated()) { $value = $fiber->resume($value); } $total += $fiber->getReturn(); }
echo $total, "\n";
PHP
    php all.php
}
