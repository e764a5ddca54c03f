// Packer packs and unpacks blocks in several threads: zlib's memory is C's, the blocks are Java's. It ends with a sum of all.
import java.util.Arrays;
import java.util.Random;
import java.util.concurrent.atomic.AtomicLong;
import java.util.zip.CRC32;
import java.util.zip.Deflater;
import java.util.zip.Inflater;

public class Packer {
    static final int THREADS = 8, ROUNDS = 24, BLOCK = 256 << 10;

    public static void main(String[] arguments) throws Exception {
        AtomicLong sum = new AtomicLong();
        Thread[] threads = new Thread[THREADS];
        for (int at = 0; at < THREADS; at++) {
            int seed = at;
            threads[at] = new Thread(() -> sum.addAndGet(work(seed)));
            threads[at].start();
        }
        for (Thread thread : threads) {
            thread.join();
        }
        System.out.println(sum.get());
    }

    static long work(int seed) {
        Random random = new Random(seed);
        long sum = 0;
        for (int round = 0; round < ROUNDS; round++) {
            byte[] block = new byte[BLOCK];
            for (int at = 0; at < BLOCK; at++) {
                block[at] = (byte) ('a' + random.nextInt(8));
            }
            Deflater packer = new Deflater(1);
            packer.setInput(block);
            packer.finish();
            byte[] packed = new byte[BLOCK];
            int length = packer.deflate(packed);
            packer.end();
            Inflater unpacker = new Inflater();
            unpacker.setInput(Arrays.copyOf(packed, length));
            byte[] again = new byte[BLOCK];
            try {
                unpacker.inflate(again);
            } catch (java.util.zip.DataFormatException error) {
                throw new IllegalStateException(error);
            }
            unpacker.end();
            if (!Arrays.equals(block, again)) {
                throw new IllegalStateException("a block differs");
            }
            CRC32 check = new CRC32();
            check.update(again);
            sum += check.getValue();
        }
        return sum;
    }
}
