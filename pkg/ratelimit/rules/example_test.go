package rules_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"

	"flashsale.internal/pkg/ratelimit/rules"
)

// Named limits on a route. With a Conn in the options all processes share them. Watch reloads a file when it changes,
// and Store.Follow applies the rules in Redis.
func ExampleRegistry_On() {
	set, err := rules.Parse([]byte(`
version: 1
rules:
  - {name: path-per-user, limit: 2, per: 10m, key: user, where: local}
  - {name: path-total, limit: 1000, burst: 100, max_wait: 1s, where: local}
`))
	if err != nil {
		panic(err)
	}
	limits := rules.New(rules.Options{
		RetrySpread: -1,
		User:        func(*http.Request) (string, bool) { return "42", true }, // in production, from the verified JWT
	})
	if err := limits.Apply(set); err != nil {
		panic(err)
	}
	paths := limits.On("path-per-user", "path-total")(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusCreated)
	}))
	for range 3 {
		w := httptest.NewRecorder()
		paths.ServeHTTP(w, httptest.NewRequest(http.MethodPost, "/paths", nil))
		fmt.Printf("%d %q\n", w.Code, w.Header().Get("Retry-After"))
	}
	// Output:
	// 201 ""
	// 201 ""
	// 429 "300"
}
