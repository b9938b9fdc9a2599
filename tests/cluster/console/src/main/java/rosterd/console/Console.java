package rosterd.console;

import com.google.gson.Gson;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.util.Map;
import org.apache.shardingsphere.elasticjob.infra.pojo.JobConfigurationPOJO;
import org.apache.shardingsphere.elasticjob.lite.lifecycle.api.JobAPIFactory;
import org.apache.shardingsphere.elasticjob.lite.lifecycle.api.JobConfigurationAPI;
import org.apache.shardingsphere.elasticjob.lite.lifecycle.api.JobOperateAPI;
import org.apache.shardingsphere.elasticjob.lite.lifecycle.api.JobStatisticsAPI;
import org.apache.shardingsphere.elasticjob.lite.lifecycle.api.ServerStatisticsAPI;
import org.apache.shardingsphere.elasticjob.lite.lifecycle.api.ShardingOperateAPI;
import org.apache.shardingsphere.elasticjob.lite.lifecycle.api.ShardingStatisticsAPI;

/**
 * Calls Elastic-Job's console API by commands: one a line, its words separated by tabs, {@code -} for none. Answers each with one
 * line of JSON: {@code ok} with the result, or {@code error}.
 */
public final class Console {

    private final JobConfigurationAPI configurations;
    private final JobOperateAPI jobs;
    private final ShardingOperateAPI items;
    private final JobStatisticsAPI jobStatistics;
    private final ServerStatisticsAPI serverStatistics;
    private final ShardingStatisticsAPI itemStatistics;

    private Console(final String servers, final String namespace) {
        configurations = JobAPIFactory.createJobConfigurationAPI(servers, namespace, null);
        jobs = JobAPIFactory.createJobOperateAPI(servers, namespace, null);
        items = JobAPIFactory.createShardingOperateAPI(servers, namespace, null);
        jobStatistics = JobAPIFactory.createJobStatisticsAPI(servers, namespace, null);
        serverStatistics = JobAPIFactory.createServerStatisticsAPI(servers, namespace, null);
        itemStatistics = JobAPIFactory.createShardingStatisticsAPI(servers, namespace, null);
    }

    public static void main(final String[] args) throws Exception {
        // Keeps the output of libraries out of the answers.
        PrintStream answers = System.out;
        System.setOut(System.err);
        Console console = new Console(args[0], args[1]);
        Gson gson = new Gson();
        BufferedReader commands = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = commands.readLine(); line != null; line = commands.readLine()) {
            Map<String, Object> answer;
            try {
                Object said = console.call(line.split("\t"));
                answer = Map.of("ok", said == null ? "" : said);
            } catch (final Exception problem) {
                answer = Map.of("error", problem.toString());
            }
            answers.println(gson.toJson(answer));
            answers.flush();
        }
        System.exit(0);
    }

    private Object call(final String[] words) {
        String first = word(words, 1);
        String second = word(words, 2);
        switch (words[0]) {
            case "jobs.count":
                return jobStatistics.getJobsTotalCount();
            case "jobs":
                return jobStatistics.getAllJobsBriefInfo();
            case "jobs.of":
                return jobStatistics.getJobsBriefInfo(first);
            case "job":
                return jobStatistics.getJobBriefInfo(first);
            case "servers.count":
                return serverStatistics.getServersTotalCount();
            case "servers":
                return serverStatistics.getAllServersBriefInfo();
            case "items":
                return itemStatistics.getShardingInfo(first);
            case "config":
                return configurations.getJobConfiguration(first);
            case "config.update":
                return update(first, second, word(words, 3));
            case "config.remove":
                configurations.removeJobConfiguration(first);
                return null;
            case "trigger":
                jobs.trigger(first);
                return null;
            case "enable":
                jobs.enable(first, second);
                return null;
            case "disable":
                jobs.disable(first, second);
                return null;
            case "shutdown":
                jobs.shutdown(first, second);
                return null;
            case "remove":
                jobs.remove(first, second);
                return null;
            case "item.enable":
                items.enable(first, second);
                return null;
            case "item.disable":
                items.disable(first, second);
                return null;
            default:
                throw new IllegalArgumentException(words[0]);
        }
    }

    /** Like a console: reads the whole, changes a field, writes the whole. */
    private Object update(final String job, final String field, final String value) {
        JobConfigurationPOJO config = configurations.getJobConfiguration(job);
        switch (field) {
            case "cron":
                config.setCron(value);
                break;
            case "shardingTotalCount":
                config.setShardingTotalCount(Integer.parseInt(value));
                break;
            case "jobParameter":
                config.setJobParameter(value);
                break;
            default:
                throw new IllegalArgumentException(field);
        }
        configurations.updateJobConfiguration(config);
        return null;
    }

    private static String word(final String[] words, final int at) {
        return at < words.length && !"-".equals(words[at]) ? words[at] : null;
    }
}
