module github.com/rosterd/rosterd/clients/go/oteltrace

go 1.25.0

require (
	github.com/rosterd/rosterd/clients/go v0.0.0
	go.opentelemetry.io/otel v1.40.0
	go.opentelemetry.io/otel/sdk v1.40.0
	go.opentelemetry.io/otel/trace v1.40.0
)

replace github.com/rosterd/rosterd/clients/go => ..
