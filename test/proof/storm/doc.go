// Package storm tests a large sale while every process and every dependency is killed twice. `make storm` runs it.
package storm
