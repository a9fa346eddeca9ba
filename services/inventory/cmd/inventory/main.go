// Command inventory runs the inventory service.
package main

import "flashsale.internal/pkg/command"

func main() {
	command.Main(command.Spec{Name: "inventory", Serve: serve, Migrate: migrate, CheckConfig: checkConfig})
}
