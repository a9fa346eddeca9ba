module flashsale.internal/test/cluster

go 1.26.0

require (
	flashsale.internal/pkg v0.0.0
	flashsale.internal/tools v0.0.0
	github.com/stretchr/testify v1.12.1
)

require (
	github.com/caarlos0/env/v11 v11.4.2 // indirect
	github.com/cespare/xxhash/v2 v2.3.0 // indirect
	github.com/go-jose/go-jose/v4 v4.1.5 // indirect
	github.com/golang-jwt/jwt/v5 v5.3.1 // indirect
	go.opentelemetry.io/otel v1.47.0 // indirect
	go.opentelemetry.io/otel/trace v1.47.0 // indirect
	go.yaml.in/yaml/v3 v3.0.5 // indirect
	golang.org/x/sync v0.24.0 // indirect
)

replace flashsale.internal/pkg => ../../pkg

replace flashsale.internal/tools => ../../tools
