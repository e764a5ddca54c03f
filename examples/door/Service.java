import com.sun.net.httpserver.HttpExchange;
import com.sun.net.httpserver.HttpServer;
import java.net.InetSocketAddress;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Random;
import java.util.concurrent.ConcurrentLinkedQueue;
import java.util.concurrent.Executors;
import java.util.zip.Deflater;

/** An HTTP service of 64 threads. `/native` compresses: its buffers are zlib's, outside of the Java heap. `/collections` builds maps. */
public class Service {
    /** Compressors that stay in use, as a service keeps one for each open stream. */
    static final ConcurrentLinkedQueue<Deflater> OPEN = new ConcurrentLinkedQueue<>();

    public static void main(String[] arguments) throws Exception {
        HttpServer server = HttpServer.create(new InetSocketAddress("127.0.0.1", Integer.parseInt(arguments[0])), 256);
        server.setExecutor(Executors.newFixedThreadPool(64));
        server.createContext("/native", exchange -> answer(exchange, true));
        server.createContext("/collections", exchange -> answer(exchange, false));
        server.start();
    }

    static void answer(HttpExchange exchange, boolean isNative) throws java.io.IOException {
        Map<String, Long> query = new HashMap<>();
        for (String pair : exchange.getRequestURI().getQuery().split("&")) {
            query.put(pair.split("=")[0], Long.valueOf(pair.split("=")[1]));
        }
        Random random = new Random(query.get("seed"));
        long size = query.get("size");
        byte[] body = Long.toString(isNative ? compressed(random, size) : collected(random, size)).getBytes();
        exchange.sendResponseHeaders(200, body.length);
        exchange.getResponseBody().write(body);
        exchange.close();
    }

    /** Compresses in as many streams as take `size` bytes of native memory, all open at once. One of 200 stays open. */
    static long compressed(Random random, long size) {
        List<Deflater> open = new ArrayList<>();
        byte[] input = new byte[20_000];
        byte[] output = new byte[20_000];
        random.nextBytes(input);
        long sum = 0;
        for (long taken = 0; taken < size; taken += 268_000) {
            Deflater deflater = new Deflater(1 + random.nextInt(9));
            deflater.setInput(input);
            deflater.finish();
            sum += deflater.deflate(output);
            open.add(deflater);
        }
        pause();
        for (Deflater deflater : open) {
            if (random.nextInt(200) == 0) {
                OPEN.add(deflater);
            } else {
                deflater.end();
            }
        }
        return sum;
    }

    /** A map from numbers to texts of `size` bytes. */
    static long collected(Random random, long size) {
        Map<Integer, List<String>> map = new HashMap<>();
        for (long taken = 0; taken < size; taken += 200) {
            map.computeIfAbsent(random.nextInt(1000), key -> new ArrayList<>()).add("order " + random.nextLong());
        }
        pause();
        return map.size();
    }

    /** Waits for a database that is not there. */
    static void pause() {
        try {
            Thread.sleep(20);
        } catch (InterruptedException error) {
            throw new IllegalStateException(error);
        }
    }
}
