package io.rosterd.spring.boot.app;

import org.aspectj.lang.ProceedingJoinPoint;
import org.aspectj.lang.annotation.Around;
import org.aspectj.lang.annotation.Aspect;
import org.springframework.stereotype.Component;

/** Wraps a job, which becomes a proxy. */
@Aspect
@Component
public class Traced {
    private final Greeter greeter;

    public Traced(Greeter greeter) {
        this.greeter = greeter;
    }

    @Around("execution(* io.rosterd.spring.boot.app.GreetingJob.execute(..))")
    public Object around(ProceedingJoinPoint call) throws Throwable {
        greeter.greet("traced");
        return call.proceed();
    }
}
