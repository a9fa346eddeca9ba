// Command inventory runs the inventory service.
package main

import (
	"flashsale.internal/pkg/command"
	"flashsale.internal/services/inventory"
)

func main() {
	command.Main(command.Spec{
		Name: "inventory", Serve: serve, CheckConfig: checkConfig, Connect: connect,
		Migrate: command.Migrate(inventory.Migrations, inventory.Migrate),
		Await:   command.AwaitMigrations(inventory.Migrations),
		More:    epochCommands(),
	})
}
