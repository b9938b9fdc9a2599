package io.rosterd.spring.boot.app;

import org.springframework.boot.autoconfigure.SpringBootApplication;

/** An application as a team has it. */
@SpringBootApplication
public class Application {}
