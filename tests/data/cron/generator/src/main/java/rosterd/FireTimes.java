package rosterd;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.text.ParseException;
import java.time.Instant;
import java.time.ZoneId;
import java.util.ArrayList;
import java.util.Date;
import java.util.List;
import java.util.TimeZone;
import org.quartz.CronExpression;

/** Asks Quartz for the fire times of many expressions: one row per expression, zone and start. */
public final class FireTimes {
    private static final int COUNT = 200;
    /** Quartz ends a century after the current year; the rows must not depend on the day they were made. */
    private static final int LAST_YEAR = 2099;

    private static final String[] ZONES = {"UTC", "America/New_York", "Europe/Berlin"};

    /** Plain ones, and ones just before each change of the clocks in New York and Berlin. */
    private static final String[] STARTS = {
        "2026-01-15T09:17:23Z", "2027-12-31T23:59:59Z",
        "2026-03-08T05:59:58Z", "2026-11-01T04:29:58Z",
        "2026-03-28T23:29:58Z", "2026-10-24T23:29:58Z",
    };

    private static final String[] ACCEPTED = {
        // elapsed time: all 24 hours
        "0/5 * * * * ?", "0 * * * * ?", "0 */10 * * * ?", "30 0/15 * * * ?", "0 0 * * * ?",
        "0 0 0-23 * * ?", "10,40 5-20/5 * ? * MON-FRI", "0 50-10/5 * * * ?", "0/7 3/20 */1 * * ?",
        // plain wall-clock times
        "0 0 12 * * ?", "0 30 2 * * ?", "0 30 1 * * ?", "0 0 2,3 * * ?", "0 0/30 0-3 * * ?",
        "0 15 10 ? * *", "0 15 10 * * ? *", "0 15 10 * * ? 2027", "0 0/5 14,18 * * ?", "0 10,44 14 ? 3 WED",
        "0 0 */2 * * ?", "0 0 8-18/2 ? * 2-6", "59 59 23 31 12 ?", "0 0 0 1 1 ?", "0 0 0 29 2 ?",
        "0 0 12 1/5 * ?", "0 11 11 11 11 ?", "1,59 0,59 0,23 * * ?", "0 0 6 ? jan,jul mon,Fri",
        "0 0 5/7 */10 2/3 ?", "0 0 0 ? * 3/2", "0 0 4 30,31 * ?",
        // ranges over the end
        "0 0 22-2 * * ?", "0 0 9 ? * FRI-MON", "0 0 9 1 NOV-FEB ?", "0 0 3 28-3 * ?", "50-10 59 23 * * ?",
        "0 0 22-4/3 ? * 6-2",
        // last days and nearest weekdays
        "0 0 0 L * ?", "0 15 10 L-2 * ?", "0 0 0 L-30 * ?", "0 15 10 LW * ?", "0 0 8 L-3W * ?",
        "0 0 8 15W * ?", "0 0 8 1W * ?", "0 0 8 31W * ?", "0 0 8 1,15,L * ?", "0 0 8 L,L-5,10 * ?",
        "0 0 8 1W,20 * ?", "0 30 2 L 3,10 ?",
        // weekdays of the month
        "0 15 10 ? * 6L", "0 15 10 ? * FRIL", "0 15 10 ? * 6L 2026-2030", "0 15 10 ? * 6#3",
        "0 15 10 ? * MON#1", "0 0 7 ? * 2#5", "0 0 7 ? * L", "0 30 2 ? 3 1#2", "0 30 1 ? 10,11 1L",
        // years
        "0 0 0 1 1 ? 2026-2040", "0 0 0 1 6 ? 2026/4", "0 0 12 ? 2 2 2028,2030,2099",
    };

    private static final String[] REFUSED = {
        "", "* * * * *", "0 0 0 1 1 ? 2026 1", "0 0 0 13 * FRI", "0 0 0 * * *", "0 0 0 ? * ?",
        "0 0/90 * * * ?", "0/60 * * * * ?", "0 0 */24 * * ?", "60 * * * * ?", "0 60 * * * ?",
        "0 0 24 * * ?", "0 0 0 32 * ?", "0 0 0 0 * ?", "0 0 0 1 13 ?", "0 0 0 1 0 ?", "0 0 0 ? * 8",
        "0 0 0 ? * 0", "0 0 0 ? * FUN", "0 0 0 1 FOO ?", "0 0 0 ? * 6#6", "0 0 0 ? * 6#0",
        "0 0 0 ? * 6#3,2#1", "0 0 0 ? * FRIL,MON", "0 0 0 L-31 * ?", "0 0 0 32W * ?", "0 0 L * * ?",
        "? 0 0 * * ?", "0 0 0 1 1 ? 2030-2026", "A 0 0 * * ?", "0 0 0 1/ * ?", "0 -1 0 * * ?",
        "0 0 15W * * ?", "0 0 0 ? 1/13 2", "0 0 0 1/32 * ?",
    };

    private FireTimes() {}

    public static void main(String[] args) throws IOException {
        List<String> rows = new ArrayList<>();
        rows.add("# Fire times of Quartz 2.5.2, made by generator/ (see FireTimes.java).");
        rows.add("# fires, expression, zone, start (excluded), more|end, seconds from start to fire to fire"
            + " (5*3 is 5 5 5)");
        rows.add("# refused, expression");
        for (String expression : ACCEPTED) {
            for (String zone : ZONES) {
                for (String start : STARTS) {
                    rows.add(fires(expression, zone, Instant.parse(start)));
                }
            }
        }
        for (String expression : REFUSED) {
            if (CronExpression.isValidExpression(expression)) {
                throw new IllegalStateException("Quartz accepts " + expression);
            }
            rows.add("refused\t" + expression);
        }
        Files.writeString(Path.of(args[0]), String.join("\n", rows) + "\n");
    }

    private static String fires(String expression, String zone, Instant start) {
        CronExpression cron;
        try {
            cron = new CronExpression(expression);
        } catch (ParseException e) {
            throw new IllegalStateException("Quartz refuses " + expression, e);
        }
        cron.setTimeZone(TimeZone.getTimeZone(zone));
        List<Long> steps = new ArrayList<>();
        Instant last = start;
        while (steps.size() < COUNT) {
            Date next = cron.getTimeAfter(Date.from(last));
            if (next == null || next.toInstant().atZone(ZoneId.of(zone)).getYear() > LAST_YEAR) {
                break;
            }
            steps.add(next.toInstant().getEpochSecond() - last.getEpochSecond());
            last = next.toInstant();
        }
        String rest = steps.size() < COUNT ? "end" : "more";
        return String.join("\t", "fires", expression, zone, start.toString(), rest, compact(steps));
    }

    private static String compact(List<Long> steps) {
        StringBuilder text = new StringBuilder();
        for (int from = 0, to; from < steps.size(); from = to) {
            to = from + 1;
            while (to < steps.size() && steps.get(to).equals(steps.get(from))) {
                to++;
            }
            text.append(from == 0 ? "" : " ").append(steps.get(from));
            text.append(to - from > 1 ? "*" + (to - from) : "");
        }
        return text.toString();
    }
}
