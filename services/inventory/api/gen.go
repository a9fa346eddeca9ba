// Package api is generated from openapi.yaml, the API of the inventory service for merchants and operators.
package api

//go:generate sh -c "cd .. && go run github.com/oapi-codegen/oapi-codegen/v2/cmd/oapi-codegen@v2.8.2 -config api/cfg.yaml api/openapi.yaml"
