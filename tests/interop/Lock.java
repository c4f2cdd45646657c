import java.io.RandomAccessFile;
import java.nio.channels.FileLock;

/** Locks byte 0 of a file as DefaultMessageStore does, says what came of it, and waits for the end of its input. */
public class Lock {
    public static void main(String[] arguments) throws Exception {
        try (RandomAccessFile file = new RandomAccessFile(arguments[0], "rw")) {
            FileLock lock = file.getChannel().tryLock(0, 1, false);
            System.out.println(lock == null ? "refused" : "locked");
            while (lock != null && System.in.read() >= 0) { }
        }
    }
}
