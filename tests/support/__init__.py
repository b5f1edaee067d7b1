"""What several test rooms share: enumeration of coins, laws to try, tables to decode from."""
