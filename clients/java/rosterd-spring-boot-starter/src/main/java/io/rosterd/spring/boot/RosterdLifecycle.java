package io.rosterd.spring.boot;

import io.rosterd.elasticjob.RosterdRegistryCenter;
import io.rosterd.elasticjob.ScheduleJobBootstrap;
import org.springframework.beans.factory.ListableBeanFactory;
import org.springframework.context.SmartLifecycle;

/**
 * Starts to take items once the application context has started, and drains before it stops: in the last phase of the start and
 * the first of the stop, so that everything that jobs use is available.
 */
final class RosterdLifecycle implements SmartLifecycle {
    private final RosterdRegistryCenter center;
    private final ListableBeanFactory beans;
    private volatile boolean running;

    RosterdLifecycle(RosterdRegistryCenter center, ListableBeanFactory beans) {
        this.center = center;
        this.beans = beans;
    }

    @Override
    public void start() {
        beans.getBeansOfType(ScheduleJobBootstrap.class).values().forEach(ScheduleJobBootstrap::schedule);
        running = true;
    }

    /** Other parts of the phase stop meanwhile. */
    @Override
    public void stop(Runnable callback) {
        Thread drain = new Thread(
                () -> {
                    try {
                        stop();
                    } finally {
                        callback.run();
                    }
                },
                "rosterd-drain");
        drain.start();
    }

    @Override
    public void stop() {
        center.close();
        running = false;
    }

    @Override
    public boolean isRunning() {
        return running;
    }
}
