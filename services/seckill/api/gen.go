// Package api holds the REST API of the purchase path: openapi.yaml and the code generated from it.
package api

//go:generate go run github.com/oapi-codegen/oapi-codegen/v2/cmd/oapi-codegen@v2.8.2 -config cfg.yaml -o api.gen.go openapi.yaml
