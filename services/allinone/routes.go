package allinone

import (
	"net/http"
	"strings"

	"flashsale.internal/pkg/contract"
)

// routes returns the handler of the public listener. The prefix of the path selects the service. All other paths are
// those of the pages, which seckill serves.
func routes(seckill, order, inventory http.Handler) http.Handler {
	byPrefix := []struct {
		prefix  string
		handler http.Handler
	}{
		{"/v1/orders", order},
		{"/v1/payments", order},
		{"/v1/merchant", inventory},
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		for _, route := range byPrefix {
			if r.URL.Path == route.prefix || strings.HasPrefix(r.URL.Path, route.prefix+"/") {
				route.handler.ServeHTTP(w, r)
				return
			}
		}
		seckill.ServeHTTP(w, r)
	})
}

// internalRoutes returns the handler of the internal listener.
func internalRoutes(order, inventory http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		for _, prefix := range []string{contract.ModesPath, contract.ReservePath, contract.LookupPath, contract.LeasePath} {
			if r.URL.Path == prefix {
				inventory.ServeHTTP(w, r)
				return
			}
		}
		order.ServeHTTP(w, r)
	})
}
