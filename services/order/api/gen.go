// Package api is generated from openapi.yaml, the API of the order service for buyers and payment providers.
package api

//go:generate sh -c "cd .. && go run github.com/oapi-codegen/oapi-codegen/v2/cmd/oapi-codegen@v2.8.2 -config api/cfg.yaml api/openapi.yaml"
//go:generate sh -c "cd .. && go run github.com/oapi-codegen/oapi-codegen/v2/cmd/oapi-codegen@v2.8.2 -config api/internalapi/cfg.yaml api/internalapi/openapi.yaml"
//go:generate sh -c "cd .. && go run github.com/oapi-codegen/oapi-codegen/v2/cmd/oapi-codegen@v2.8.2 -config api/shopapi/cfg.yaml api/shopapi/openapi.yaml"
