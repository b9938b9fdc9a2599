package generator;

import java.io.IOException;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import org.apache.shardingsphere.elasticjob.infra.handler.sharding.JobInstance;
import org.apache.shardingsphere.elasticjob.infra.handler.sharding.JobShardingStrategy;
import org.apache.shardingsphere.elasticjob.infra.handler.sharding.impl.AverageAllocationJobShardingStrategy;
import org.apache.shardingsphere.elasticjob.infra.handler.sharding.impl.OdevitySortByNameJobShardingStrategy;
import org.apache.shardingsphere.elasticjob.infra.handler.sharding.impl.RoundRobinByNameJobShardingStrategy;

/**
 * Asks the released Elastic-Job which instance owns which item, and writes one line per answer. The README describes the format.
 */
public final class Generate {

    private static final String DIGITS = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ";

    private static final String[] NAMES = {
        "a", "b", "word-count", "word-counu", "nightly.report_2", "Elastic-Job", "com.example.BillingJob",
        "x".repeat(128),
        // hash 0, 1, -1
        "", "f5a5a608", "aoffckzd", "atafwjsh", "ajkenmba", "aepdynhz", "aoffckzc",
        // the least int: its absolute value is negative in 32 bits
        "polygenelubricants", "alxexlnb", "DESIGNING WORKHOUSES",
        // one above it; the greatest int; one below that
        "alxexlnc", "aqsfmkgg", "alxexlna", "badhkgqq", "aqsfmkgd", "badhkgqp",
        // beyond ASCII, and beyond one UTF-16 unit
        "\u00fcbung", "\u4f5c\u4e1a", "\u65e5\u6b21\u96c6\u8a08-1", "\ud83d\ude00", "job-\ud834\udd1e-\ud83d\ude80",
        "e\u0301t\u00e9",
    };

    /** Instances, items. */
    private static final int[][] SIZES = {
        {0, 4}, {1, 3}, {2, 1}, {2, 5}, {3, 0}, {3, 2}, {3, 8}, {4, 10}, {5, 12}, {7, 3}, {10, 33}, {50, 20}, {50, 120},
    };

    private final PrintStream out;

    private Generate(final PrintStream out) {
        this.out = out;
    }

    public static void main(final String[] args) throws IOException {
        try (PrintStream out = new PrintStream(args[0], StandardCharsets.UTF_8)) {
            new Generate(out).run();
        }
    }

    private void run() {
        for (int n = 0; n <= 8; n++) {
            for (int items = 0; items <= 18; items++) {
                ask(new AverageAllocationJobShardingStrategy(), "any", n, items);
            }
        }
        ask(new AverageAllocationJobShardingStrategy(), "any", 10, 1000);
        ask(new AverageAllocationJobShardingStrategy(), "any", 50, 1027);
        for (String name : NAMES) {
            for (int[] size : SIZES) {
                ask(new OdevitySortByNameJobShardingStrategy(), name, size[0], size[1]);
                ask(new RoundRobinByNameJobShardingStrategy(), name, size[0], size[1]);
            }
        }
    }

    private void ask(final JobShardingStrategy strategy, final String job, final int n, final int items) {
        List<JobInstance> instances = new ArrayList<>();
        for (int i = 0; i < n; i++) {
            instances.add(new JobInstance(Integer.toString(i), null, "127.0.0.1"));
        }
        String answer;
        try {
            // The strategies may reorder the list that they are given.
            answer = quote(owners(strategy.sharding(new ArrayList<>(instances), job, items), n, items));
        } catch (final RuntimeException crash) {
            answer = "{\"crash\":" + quote(crash.getClass().getSimpleName()) + "}";
        }
        out.print("[" + quote(strategy.getType()) + "," + quote(job) + "," + job.hashCode() + "," + n + "," + items
            + "," + answer + "]\n");
    }

    private static String owners(final Map<JobInstance, List<Integer>> answer, final int n, final int items) {
        char[] owners = new char[items];
        Set<Integer> seen = new LinkedHashSet<>();
        answer.forEach((instance, owned) -> {
            int last = -1;
            for (int item : owned) {
                check(item > last && seen.add(item), "items ascend and have one owner");
                owners[item] = DIGITS.charAt(Integer.parseInt(instance.getJobInstanceId()));
                last = item;
            }
        });
        check(answer.size() == n, "every instance is listed");
        check(n == 0 || seen.size() == items, "every item has an owner");
        return n == 0 ? "" : new String(owners);
    }

    private static void check(final boolean holds, final String what) {
        if (!holds) {
            throw new AssertionError("not so: " + what);
        }
    }

    /** A JSON string of ASCII characters only. */
    private static String quote(final String text) {
        StringBuilder quoted = new StringBuilder("\"");
        for (char c : text.toCharArray()) {
            quoted.append(c < ' ' || c > '~' || c == '"' || c == '\\' ? String.format("\\u%04x", (int) c) : c);
        }
        return quoted.append('"').toString();
    }
}
