// Command serve runs the identity provider of the tests. Its user is a merchant.
//
//	go run ./services/seckill/internal/signin/identityprovider/serve -addr 127.0.0.1:9998 \
//	    -public-url http://127.0.0.1:8080
package main

import (
	"flag"
	"fmt"
	"net/http"
	"os"
	"time"

	"flashsale.internal/services/seckill/internal/signin/identityprovider"
)

func main() {
	addr := flag.String("addr", "127.0.0.1:9998", "address of the provider")
	publicURL := flag.String("public-url", "http://127.0.0.1:8080", "PUBLIC_URL of the pages")
	flag.Parse()
	issuer := "http://" + *addr + "/"
	provider := identityprovider.New(issuer, *publicURL, map[string]any{"roles": []string{"merchant"}, "merchant_id": "m1"})
	fmt.Printf("OIDC_ISSUER=%s OIDC_CLIENT_ID=%s OIDC_CLIENT_SECRET=%s PUBLIC_URL=%s\nuser %s, password %s\n",
		issuer, identityprovider.ClientID, identityprovider.ClientSecret, *publicURL,
		identityprovider.Username, identityprovider.Password)
	server := http.Server{Addr: *addr, Handler: provider, ReadHeaderTimeout: 5 * time.Second}
	fmt.Fprintln(os.Stderr, server.ListenAndServe())
	os.Exit(1)
}
