package io.rosterd.spring.boot.app;

import java.util.concurrent.CountDownLatch;
import org.apache.shardingsphere.elasticjob.api.ShardingContext;
import org.apache.shardingsphere.elasticjob.simple.job.SimpleJob;
import org.springframework.stereotype.Component;

/** A job that ends when a test lets it. */
@Component
public class SlowJob implements SimpleJob {
    public final CountDownLatch begun = new CountDownLatch(1);
    public final CountDownLatch gate = new CountDownLatch(1);
    public volatile boolean ended;

    private final Greeter greeter;

    public SlowJob(Greeter greeter) {
        this.greeter = greeter;
    }

    @Override
    public void execute(ShardingContext context) {
        begun.countDown();
        try {
            gate.await();
        } catch (InterruptedException told) {
            throw new IllegalStateException(told);
        }
        // Its beans are available until it has ended.
        greeter.greet("slow");
        ended = true;
    }
}
