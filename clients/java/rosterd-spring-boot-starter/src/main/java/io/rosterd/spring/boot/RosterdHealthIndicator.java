package io.rosterd.spring.boot;

import io.rosterd.client.RosterdException;
import io.rosterd.elasticjob.RosterdRegistryCenter;
import java.util.Optional;
import org.springframework.boot.actuate.health.AbstractHealthIndicator;
import org.springframework.boot.actuate.health.Health;

/** Up while the application is attached to a coordinator, or has no job. */
final class RosterdHealthIndicator extends AbstractHealthIndicator {
    private final RosterdRegistryCenter center;

    RosterdHealthIndicator(RosterdRegistryCenter center) {
        super("the state of the rosterd worker is not known");
        this.center = center;
    }

    @Override
    protected void doHealthCheck(Health.Builder builder) {
        Optional<RosterdException> failure = center.failure();
        if (failure.isPresent()) builder.down(failure.get());
        else if (center.isReady() || !center.isStarted()) builder.up();
        else builder.down().withDetail("reason", "not attached to a coordinator, or leaving");
        // Read after the state: a worker that is ready has an instance.
        center.instanceId().ifPresent(id -> builder.withDetail("instance", id));
    }
}
