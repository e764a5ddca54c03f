import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.zip.Deflater;

/**
 * The part of Java that is C's: compressors, whose memory zlib takes by malloc. Four threads that stay make and end them in turns, and
 * keep one of twenty: what lies between those stays with each thread's arena.
 *
 *     java Compressors [COMPRESSORS of a turn]
 *
 * Prints a sum that is the same under each allocator.
 */
public class Compressors {
    static final List<Deflater> KEPT = new ArrayList<>();

    public static void main(String[] words) throws Exception {
        int count = words.length > 0 ? Integer.parseInt(words[0]) : 200;
        ExecutorService[] threads = new ExecutorService[4];
        long sum = 0;
        for (int turn = 0; turn < threads.length; turn++) {
            threads[turn] = Executors.newSingleThreadExecutor();
            sum += threads[turn].submit(() -> turn(count)).get();
        }
        for (ExecutorService thread : threads) thread.shutdown();
        System.out.println(sum + " " + KEPT.size());
    }

    static long turn(int count) {
        byte[] in = new byte[100000], out = new byte[100000];
        for (int at = 0; at < in.length; at++) in[at] = (byte) (at * 31 % 251);
        long sum = 0;
        Deflater[] all = new Deflater[count];
        for (int at = 0; at < count; at++) {
            all[at] = new Deflater();
            all[at].setInput(in);
            all[at].finish();
            sum += all[at].deflate(out);
        }
        for (int at = 0; at < count; at++)
            if (at % 20 == 0) KEPT.add(all[at]);
            else all[at].end();
        return sum;
    }
}
