-- The general case takes all arguments, which were sent as one text.
local ARGV, text = {}, ARGV[#ARGV]
for word in string.gmatch(text, '([^|]*)|') do ARGV[#ARGV + 1] = word end
