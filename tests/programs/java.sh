# Java: the compiler and the program in one process; threads, direct buffers and zlib are C's memory.
packages="default-jdk-headless"
program() { readlink -f "$(command -v java)"; }
version() { java --version | awk 'NR == 1 { print $2 }'; }
run() {
    cat > All.java << 'JAVA'
import java.io.*;
import java.nio.ByteBuffer;
import java.util.*;
import java.util.concurrent.*;
import java.util.stream.*;
import java.util.zip.*;

public class All {
    static long packed(int n) throws Exception {
        byte[] text = "allocate ".repeat(2000 + n).getBytes();
        var bytes = new ByteArrayOutputStream();
        try (var out = new GZIPOutputStream(bytes)) { out.write(text); }
        try (var in = new GZIPInputStream(new ByteArrayInputStream(bytes.toByteArray()))) { return in.readAllBytes().length; }
    }

    public static void main(String[] words) throws Exception {
        var pool = Executors.newFixedThreadPool(8);
        var sums = new ArrayList<Future<Long>>();
        for (int i = 0; i < 60; i++) { int n = i; sums.add(pool.submit(() -> { Thread.sleep(3); return packed(n); })); }
        long total = 0;
        for (var sum : sums) total += sum.get();
        pool.shutdown();
        System.out.println(total);
        long seen = 0;
        for (int i = 0; i < 300; i++) {
            var buffer = ByteBuffer.allocateDirect(64 * 1024 + i);
            buffer.putInt(i, i);
            seen += buffer.getInt(i) + buffer.capacity();
        }
        System.out.println(seen);
        var groups = IntStream.range(0, 200_000).parallel().boxed().collect(Collectors.groupingBy(n -> n % 7, TreeMap::new, Collectors.summingLong(n -> n)));
        System.out.println(groups);
        System.gc();
        var process = new ProcessBuilder("sh", "-c", "echo from a child; exit 5").start();
        System.out.print(new String(process.getInputStream().readAllBytes()));
        System.exit(process.waitFor());
    }
}
JAVA
    java -Xmx256m -XX:-UsePerfData All.java
}
