import java.util.concurrent.atomic.AtomicLong;
import java.util.zip.CRC32;
import java.util.zip.Deflater;
import java.util.zip.Inflater;

/** Four threads pack and unpack bytes, which takes blocks of malloc; the first one prints the counts each second. */
class Sums {
    static final AtomicLong rounds = new AtomicLong(), wrong = new AtomicLong();

    static void work(int seed) {
        byte[] bytes = new byte[5000];
        for (;;) {
            for (int at = 0; at < bytes.length; at++) bytes[at] = (byte) ((seed = seed * 1103515245 + 12345) >> 28);
            Deflater deflater = new Deflater();
            deflater.setInput(bytes);
            deflater.finish();
            byte[] packed = new byte[8000], out = new byte[bytes.length];
            int length = deflater.deflate(packed);
            deflater.end();
            Inflater inflater = new Inflater();
            inflater.setInput(packed, 0, length);
            try {
                inflater.inflate(out);
            } catch (Exception e) {
                wrong.incrementAndGet();
            }
            inflater.end();
            CRC32 one = new CRC32(), other = new CRC32();
            one.update(bytes);
            other.update(out);
            if (one.getValue() != other.getValue()) wrong.incrementAndGet();
            if (rounds.incrementAndGet() % 16 == 0) {
                try {
                    Thread.sleep(1);
                } catch (InterruptedException e) {
                    return;
                }
            }
        }
    }

    public static void main(String[] arguments) throws Exception {
        for (int at = 1; at <= 4; at++) {
            int seed = at;
            Thread thread = new Thread(() -> work(seed));
            thread.setDaemon(true);
            thread.start();
        }
        for (;;) {
            Thread.sleep(1000);
            System.out.println("rounds=" + rounds + " wrong=" + wrong);
        }
    }
}
