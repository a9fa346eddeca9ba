// Package api holds the interface of the purchase path: openapi.yaml and what is generated from it.
package api

//go:generate go run github.com/oapi-codegen/oapi-codegen/v2/cmd/oapi-codegen@v2.8.2 -config cfg.yaml -o api.gen.go openapi.yaml
