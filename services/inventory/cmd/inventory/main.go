// Command inventory runs the inventory service.
package main

import (
	"flashsale.internal/pkg/command"
	"flashsale.internal/services/inventory"
)

func main() {
	command.Main(command.Spec{Name: "inventory", Serve: serve, Migrate: command.Migrate(inventory.Migrations), CheckConfig: checkConfig})
}
