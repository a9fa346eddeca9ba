package apitest

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestOperations(t *testing.T) {
	file := filepath.Join(t.TempDir(), "openapi.yaml")
	require.NoError(t, os.WriteFile(file, []byte(`
paths:
  /v1/things/{id}:
    parameters: [{name: id}]
    get: {operationId: getThing}
    delete: {operationId: deleteThing}
  /v1/things:
    post: {operationId: createThing}
`), 0o600))
	require.Equal(t, []Operation{
		{"createThing", "POST", "/v1/things"}, {"getThing", "GET", "/v1/things/{id}"}, {"deleteThing", "DELETE", "/v1/things/{id}"},
	}, Operations(t, file))
}

func TestNullFields(t *testing.T) {
	file := filepath.Join(t.TempDir(), "openapi.yaml")
	require.NoError(t, os.WriteFile(file, []byte(`
paths:
  /v1/things/{id}:
    parameters: [{name: id}]
    get: {operationId: none}
    put:
      requestBody: {content: {application/json: {schema: {$ref: "#/components/schemas/Thing"}}}}
components:
  schemas:
    Thing:
      type: object
      properties:
        name: {type: string}
        note: {type: string, nullable: true}
        parts: {type: array, items: {$ref: "#/components/schemas/Part"}}
    Part:
      type: object
      properties:
        qty: {type: integer, minimum: 1}
`), 0o600))
	put := func(field, body string) Request { return Request{"PUT", "/v1/things/{id}", body, field} }
	require.Equal(t, []Request{
		put("name", `{"name":null,"note":"1","parts":[{"qty":1}]}`),
		put("parts", `{"name":"1","note":"1","parts":null}`),
		put("parts[0]", `{"name":"1","note":"1","parts":[null]}`),
		put("parts[0].qty", `{"name":"1","note":"1","parts":[{"qty":null}]}`),
	}, NullFields(t, file))
}
