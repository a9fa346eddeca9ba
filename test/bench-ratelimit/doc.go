// Package benchratelimit measures pkg/ratelimit beside other limiters. It is a module of its own, so that nobody who uses
// pkg gets the others as dependencies. Run it with
//
//	scripts/dev/with-parts go test -run '^$' -bench . -benchmem -cpu 1,2 ./test/bench-ratelimit
package benchratelimit
