// Package sim plays whole sales in one process and on a clock of its own: the three services as they are, on an embedded
// Redis, SQLite or MariaDB and the in-process bus, with buyers and a merchant, while everything that leaves a service
// fails, comes late, comes twice or is the last thing that the process did. What fails, and when, is drawn from a seed.
// When a sale has come to rest, all that Flashsale promises is checked.
//
//	go test ./test/sim                                  some hundred seeds
//	make sim SEEDS=5000                                 as many as one likes, and every fault point must be hit
//	SIM_SEED=123 go test ./test/sim -run TestSim -v     one seed, with the history of the purchases concerned
//
// A seed fixes the sale, the buyers, the merchant and which call of each fault point meets which fault. The order in which
// goroutines run, and the services' own jitter, are not fixed: SIM_REPEAT=50 plays a seed so many times.
package sim
