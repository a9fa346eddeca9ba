// Command order runs the order service.
package main

import (
	"flashsale.internal/pkg/command"
	"flashsale.internal/services/order"
)

func main() {
	command.Main(command.Spec{
		Name: "order", Serve: serve, CheckConfig: checkConfig,
		Migrate: command.Migrate(order.Migrations), Await: command.AwaitMigrations(order.Migrations),
		More: contactCommands(),
	})
}
